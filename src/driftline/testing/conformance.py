"""The test suite for backends. A vendor inherits from it:

    from driftline.testing import BackendConformance

    class TestMyChip(BackendConformance):
        backend = "mychip"
        plugins = ("mychip_driftline.py",)  # not needed when the backend is installed with an entry point

A plugin is looked for in the working directory, then beside the test file. One that cannot be loaded fails the tests; a
compiler that is not installed skips them, and says so.

Everything runs as it does for users: in worker processes, judged by the oracle.
"""

from __future__ import annotations

import atexit
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import pytest

from driftline.backends import BACKENDS, resolve
from driftline.backends.base import Availability, Backend
from driftline.checking.checker import Checker, TargetResult
from driftline.checking.kinds import worker_for_target
from driftline.checking.open import LoadedProgram, open_source
from driftline.core.case import Case, CheckOptions, Inputs
from driftline.core.case_files import CaseFiles
from driftline.core.errors import DriftlineError
from driftline.core.execution import Execution, Outcome
from driftline.core.plugins import load_plugins
from driftline.core.program import FORMS, FRAMEWORKS, Program
from driftline.core.target import Target
from driftline.core.tensors import save_tensors
from driftline.core.verdict import Judgement
from driftline.execute.pool import Pool, WorkerStartError
from driftline.execute.requests import PROBE, ProbeRequest, RunRequest
from driftline.programs.convert import accepts_directly, find_converter
from driftline.testing import programs
from driftline.testing.programs import SuiteProgram
from driftline.testing.task import CHANGED_ARRAYS

# Imports that a backend file must do without, whatever else is installed.
COMPILERS = (
    "torch", "onnx", "onnxruntime", "openvino", "tvm", "iree", "jax", "jaxlib", "torchax", "tensorflow", "keras",
    "ai_edge_litert", "executorch", "tensorrt",
)  # fmt: skip

_IMPORT_WITHOUT = """
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in sys.argv[2].split(","):
            raise ImportError(f"{name} is imported when the backend is loaded; import it inside compile or warm")

sys.meta_path.insert(0, Blocker())
from driftline.backends import BACKENDS
from driftline.core.plugins import load_plugins

load_plugins(sys.argv[3:])
BACKENDS.get(sys.argv[1])
"""


@cache
def _checker() -> Checker:
    """Return the checker that all suites of a test run share, so that each framework is imported once."""
    pool = Pool()
    atexit.register(pool.close)
    return Checker(pool)


@cache
def _opened(program: SuiteProgram) -> LoadedProgram:
    return open_source(program.bundle, _checker().pool, CheckOptions(), name=program.name)


# Packages that Driftline itself needs are not blocked.
OWN_DEPENDENCIES = ("numpy", "ml_dtypes", "psutil")


class BackendConformance:
    """The base class of a backend's conformance tests: inherit from it and set `backend`."""

    backend: ClassVar[str]
    plugins: ClassVar[tuple[str, ...]] = ()
    options: ClassVar[str] = ""  # of the target, as in "opt=off:device=cpu"
    dtypes: ClassVar[tuple[str, ...]] = ()  # run only the programs of these dtypes; default: all
    timeout: ClassVar[float] = 300.0  # of one compilation with its runs

    # -- what the suite is made of -------------------------------------------------------------------------------------

    @classmethod
    def target(cls) -> Target:
        return Target.parse(cls.backend + (f":{cls.options}" if cls.options else ""))

    @classmethod
    def plugin_paths(cls) -> tuple[str, ...]:
        """Return the absolute paths of the plugins: workers have another working directory."""
        beside = Path(sys.modules[cls.__module__].__file__ or ".").parent
        return tuple(str((Path(p) if Path(p).exists() else beside / p).resolve()) for p in cls.plugins)

    @classmethod
    def loaded(cls) -> Backend:
        load_plugins(cls.plugin_paths())
        return BACKENDS.get(cls.backend)

    @classmethod
    def frameworks(cls) -> list[str]:
        """The frameworks whose programs the backend accepts without conversion."""
        names = (form.partition(":")[2] or form for form in cls.loaded().accepts)
        return [name for name in dict.fromkeys(names) if name in FRAMEWORKS]

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        try:
            frameworks = self.frameworks()
        except DriftlineError:  # each test reports a file that cannot be loaded, not the collection
            for name in {"suite_program", "framework"} & set(metafunc.fixturenames):
                metafunc.parametrize(name, [None], ids=["not-loaded"])
            return
        if "suite_program" in metafunc.fixturenames:
            chosen = [
                program
                for program in programs.legitimate(frameworks)
                if not (self.dtypes and program.needs and program.needs not in self.dtypes)
            ]
            metafunc.parametrize("suite_program", chosen, ids=[program.name for program in chosen])
        if "framework" in metafunc.fixturenames:
            metafunc.parametrize("framework", frameworks)

    @pytest.fixture
    def available(self) -> Availability:
        """Skip the test if the compiler cannot run here. Fail it if the compiler is installed but unusable."""
        found = self._probe()
        if not found.available and self.plugins and self.loaded().installed().available:
            pytest.fail(f"{self.backend} is installed and cannot be used: {found.reason}")
        if not found.available:
            pytest.skip(f"{self.backend} is unavailable: {found.reason}")
        return found

    # -- the declaration -----------------------------------------------------------------------------------------------

    def test_is_declared_properly(self) -> None:
        backend = self.loaded()
        assert backend.name == self.backend, "the class attribute `name` must be the registered name"
        assert backend.accepts, "`accepts` must name at least one form"
        for form in backend.accepts:
            kind, _, framework = form.partition(":")
            assert kind in FORMS, f"{form!r} in `accepts`: the form must be one of {', '.join(FORMS)}"
            if kind == "source":
                assert framework in FRAMEWORKS, f"{form!r}: write source:<framework>, of {', '.join(FRAMEWORKS)}"
        assert backend.devices, "`devices` must name at least one"
        for name, declared in backend.options.items():
            assert declared.help, f"the option {name!r} has no help text"
            assert not (declared.values and declared.default) or declared.default in declared.values, name

    def test_loads_without_the_compiler(self) -> None:
        """The declaration loads while the compiler cannot be imported: the parent process never imports compilers."""
        blocked = {*COMPILERS, self.loaded().module.partition(".")[0]} - {"", *OWN_DEPENDENCIES}
        done = subprocess.run(
            [sys.executable, "-c", _IMPORT_WITHOUT, self.backend, ",".join(blocked), *self.plugin_paths()],
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr

    def test_says_how_to_install_it(self) -> None:
        assert self.loaded().install_command

    def test_unavailable_says_why(self) -> None:
        found = self._probe()
        assert found.available or found.reason

    def test_available_has_version_and_devices(self, available: Availability) -> None:
        assert available.version
        assert available.devices

    def test_refuses_unknown_options_and_lists_the_valid_ones(self) -> None:
        backend = self.loaded()
        with pytest.raises(DriftlineError) as refused:
            resolve(Target(self.backend, None, (("no-such-option", "1"),)))
        assert all(name in str(refused.value) for name in backend.options)
        for name, declared in backend.options.items():
            if declared.values:
                with pytest.raises(DriftlineError) as refused:
                    resolve(Target(self.backend, None, ((name, "no-such-value"),)))
                assert all(value in str(refused.value) for value in declared.values)

    # -- programs ------------------------------------------------------------------------------------------------------

    def test_runs_correctly_or_declines(self, suite_program: SuiteProgram, available: Availability) -> None:
        result = self._check(suite_program)
        assert not result.internal_error, result.internal_error
        assert result.verdict.judgement in (Judgement.PASS, Judgement.REJECTED), _told(result)

    def test_runs_something(self, available: Availability) -> None:
        results = [self._check(program) for program in programs.legitimate(self.frameworks())]
        passed = [result for result in results if result.verdict.judgement is Judgement.PASS]
        assert passed or not results, f"all {len(results)} programs are declined; the first: {_told(results[0])}"

    def test_declines_what_it_cannot_take(self, framework: str, available: Availability) -> None:
        execution = self._execute(programs.hard(framework))
        accepted = (Outcome.REJECTED,) if framework == "onnx" else (Outcome.REJECTED, Outcome.OK)
        assert execution.outcome in accepted, (
            f"{execution.outcome}: {execution.failure}. Say so in `is_rejection`, or raise `Unsupported`."
        )

    def test_declines_programs_of_other_frameworks(self) -> None:
        accepted = self.loaded().accepts
        for framework in ("torch", "tensorflow", "jax"):
            if accepts_directly("source", framework, accepted) or find_converter("source", framework, accepted):
                continue
            stranger = Program("source", framework, "", Path("not-opened"), f"a {framework} program")
            case = Case(stranger, (), (self.target(),), CheckOptions(plugins=self.plugin_paths()))
            assert _checker().execute(case, self.target()).outcome is Outcome.REJECTED

    def test_gives_the_same_result_twice(self, framework: str, available: Availability) -> None:
        execution = self._execute(self._simple(framework), repeat=2)
        if execution.outcome is Outcome.REJECTED:
            pytest.skip(f"declined: {execution.failure}")
        assert execution.outcome is Outcome.OK, execution.failure
        first, second = execution.outputs
        assert {name: array.tobytes() for name, array in first.items()} == {
            name: array.tobytes() for name, array in second.items()
        }

    def test_does_not_change_the_arrays_it_is_given(self, framework: str, available: Availability) -> None:
        case = self._case(self._simple(framework))
        checker, target = _checker(), self.target()
        folder = checker.pool.workspace.job_folder()
        save_tensors(folder / "input", case.samples[0].arrays)
        files = CaseFiles(case.program, (folder / "input",), folder, plugins=self.plugin_paths())
        request = RunRequest(files, target.backend, dict(target.options))
        kind = worker_for_target(self.loaded(), target, self.plugin_paths())
        report = checker.pool.run(kind, CHANGED_ARRAYS, request, timeout=self.timeout)
        assert report.answer, f"{report.ending}: {report.detail}\n{report.log}"
        if report.answer.rejected:
            pytest.skip(f"declined: {report.answer.rejected}")
        assert not report.answer.changed

    def test_does_not_hide_a_failure(self, framework: str, available: Availability) -> None:
        """The program raises an exception; if the compiler returns a result instead, the result must not pass."""
        result = self._check(programs.failing(framework))
        assert result.execution.outcome is not Outcome.OK or result.verdict.judgement is not Judgement.PASS, _told(
            result
        )

    # -- helpers -------------------------------------------------------------------------------------------------------

    @classmethod
    def _probe(cls) -> Availability:
        return _probe(cls.backend, cls.plugin_paths(), str(cls.target()))

    def _simple(self, framework: str) -> SuiteProgram:
        chosen = {program.name: program for program in programs.legitimate([framework])}
        return chosen[f"{framework}_matmul_softmax"]

    def _case(self, program: SuiteProgram, repeat: int = 1) -> Case:
        opened = _opened(program)
        sample = Inputs(opened.example, "example")
        options = CheckOptions(timeout=self.timeout, plugins=self.plugin_paths())
        return Case(opened.program, (sample,) * repeat, (self.target(),), options)

    def _execute(self, program: SuiteProgram, repeat: int = 1) -> Execution:
        return _checker().execute(self._case(program, repeat), self.target())

    def _check(self, program: SuiteProgram) -> TargetResult:
        self.loaded()
        return _checked(program, self.target(), self.plugin_paths(), self.timeout)


@cache
def _probe(backend: str, plugins: tuple[str, ...], target: str) -> Availability:
    load_plugins(plugins)
    loaded = BACKENDS.get(backend)
    quick = loaded.installed()
    if not quick.available:
        return quick
    kind = worker_for_target(loaded, Target.parse(target), plugins)
    try:
        report = _checker().pool.run(kind, PROBE, ProbeRequest(backend, plugins))
    except WorkerStartError as error:
        return Availability(False, reason=f"its worker cannot start: {error}")
    return report.answer or Availability(False, reason=f"its probe ended with {report.ending} ({report.detail})")


@cache
def _reference(program: SuiteProgram) -> Any:
    opened = _opened(program)
    case = Case(opened.program, (Inputs(opened.example, "example"),), (), CheckOptions())
    return _checker().reference(case)


@cache
def _checked(program: SuiteProgram, target: Target, plugins: tuple[str, ...], timeout: float) -> TargetResult:
    opened = _opened(program)
    options = CheckOptions(timeout=timeout, plugins=plugins)
    case = Case(opened.program, (Inputs(opened.example, "example"),), (target,), options)
    outcome = _checker().check(case, known_reference=_reference(program))
    assert outcome.results, f"{target} did not run: {outcome.skipped[0].reason}"
    return outcome.results[0]


def _told(result: TargetResult) -> str:
    text = f"{result.verdict.judgement}: {result.verdict.reason}"
    return f"{text}\n{result.execution.failure.traceback}" if result.execution.failure else text
