"""Driftline in pytest: tests that run on every target, known failures, and a check as an assertion.

    @pytest.mark.driftline(targets=["inductor", "onnxruntime"])
    @known_failing_targets("inductor", reason="pytorch#12345")
    def test_gelu(target, driftline_check):
        driftline_check(model, (x,))

pytest loads this file by itself wherever Driftline is installed, so it imports nothing until a test asks for it. With
xdist every process has workers of its own; the store is shared.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from driftline.checking.result import CheckResult
    from driftline.core.target import Target
    from driftline.strategies.drawn import DrawnProgram
    from driftline.strategies.falsified import Falsified

REDUCE = 60.0  # seconds to make a program smaller that a property test drew
MARK, KNOWN, REQUIRES = "driftline", "driftline_known_failing", "driftline_requires"
OPTION, SETTING, USUAL = "--driftline-targets", "driftline_targets", "quick"
PLUGIN = "--driftline-plugin"


def known_failing_targets(*targets: str, reason: str, strict: bool = True) -> pytest.MarkDecorator:
    """Mark targets on which a test is known to fail: `tvm` stands for all options, `tvm:opt=0` for this one. The test
    still runs; with `strict`, a pass counts as a failure, so that the mark is removed in time. Only a wrong result
    counts as the known failure, other errors still fail the test."""
    return getattr(pytest.mark, KNOWN)(*targets, reason=reason, strict=strict)


def requires(*features: str) -> pytest.MarkDecorator:
    """Skip a test, with the reason, if the machine lacks a feature: `cuda`, a processor (`x86_64`), instructions
    (`avx512f`, `sve`), a target (`tvm`) or a package (`package:transformers`)."""
    return getattr(pytest.mark, REQUIRES)(*features)


# -- what pytest is told ----------------------------------------------------------------------------------------------


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("driftline", "compilers under test")
    group.addoption(
        OPTION,
        metavar="TARGETS",
        help="run tests that are marked with driftline on these targets, or presets (quick, default, all), alone",
    )
    group.addoption("--driftline-store", metavar="DIR", help="where failures are kept, as for driftline check --store")
    group.addoption(
        PLUGIN,
        metavar="FILE.py",
        action="append",
        default=[],
        help="a file that registers further backends, as for driftline check --plugin; may be given several times",
    )
    parser.addini(SETTING, "targets for tests whose mark names none", default=USUAL)


def pytest_configure(config: pytest.Config) -> None:
    for line in (
        f"{MARK}(targets=[...]): run on each of these targets, given as the fixture `target`; without, on those of"
        f" {OPTION} or the setting {SETTING}",
        f"{KNOWN}(*targets, reason, strict=True): see driftline.testing.known_failing_targets",
        f"{REQUIRES}(*features): see driftline.testing.requires",
    ):
        config.addinivalue_line("markers", line)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Validate the plugin's options and settings before collection; a mistake ends the run as a usage error."""
    config = session.config
    plugins, given, usual = config.getoption(PLUGIN), config.getoption(OPTION), config.getini(SETTING)
    try:
        if plugins:
            where = PLUGIN
            _load_plugins(config)
        if given:
            where = OPTION
            _expanded([given])
        if usual != USUAL:
            where = f"{SETTING} = {usual}"
            _expanded([usual])
    except pytest.fail.Exception as mistake:
        told = str(mistake.msg)
    else:
        return
    raise pytest.UsageError(f"{where}: {told}")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    mark = metafunc.definition.get_closest_marker(MARK)
    if mark is None or "target" not in metafunc.fixturenames:
        return
    try:
        _of_mark(metafunc.config, mark)
        known = [_KnownFailure.of(each) for each in metafunc.definition.iter_markers(KNOWN)]
    except pytest.fail.Exception as mistake:  # a mistake of this test: the others of its file are collected
        metafunc.parametrize("target", [pytest.param(_Mistake(str(mistake.msg)), id="mistake")], indirect=True)
        return
    chosen = _chosen(metafunc.config, mark)
    metafunc.parametrize("target", [_parameter(target, known) for target in chosen], indirect=True)


def pytest_runtest_setup(item: pytest.Item) -> None:
    own = any(mark.name == KNOWN for mark in item.own_markers)  # that of a class may be for its other tests
    if own and "target" not in getattr(item, "fixturenames", ()):
        told = "known_failing_targets is for tests that run once for each target: let it take the fixture `target`"
        pytest.fail(f"{told}.", pytrace=False)
    for mark in item.iter_markers(REQUIRES):
        from driftline.testing.requirements import missing

        for feature in mark.args:
            if why := _asked(missing, feature):
                pytest.skip(f"requires {feature}: {why}")


# -- fixtures ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def target(request: pytest.FixtureRequest) -> Target:
    """Return the target of this run of the test. Skips the test where the compiler is not installed."""
    if not hasattr(request, "param"):
        told = "asks for a target without @pytest.mark.driftline; add it, with targets=[...] if it is not for all"
        pytest.fail(f"{request.node.nodeid} {told}", pytrace=False)
    if isinstance(request.param, _Mistake):
        pytest.fail(request.param.told, pytrace=False)
    found: Target = request.param
    if why := _unavailable(found):
        pytest.skip(why)
    return found


@pytest.fixture
def driftline_check(request: pytest.FixtureRequest) -> Checking:
    """`driftline_check(model, example, ...)`: a check that fails the test. It accepts the arguments of
    `driftline.check`; `targets` defaults to the test's `target` or those of its mark. If no target can be judged, the
    test is skipped.

    A program of `driftline.strategies.programs` is made smaller when it fails, for `reduce` seconds at most."""
    return Checking(request)


class Checking:
    """The callable that the fixture `driftline_check` returns for one test."""

    def __init__(self, request: pytest.FixtureRequest) -> None:
        self._request = request
        self._falsified: Falsified | None = None

    def __call__(self, program: Any, example: Any = None, **settings: Any) -> CheckResult:
        import driftline
        from driftline.core.errors import UnfitTarget

        __tracebackhide__ = True
        config = self._request.config
        drawn = _is_drawn(program)
        if drawn:
            self._fail_again(program)
            settings = {"grad": program.grad, "calls": 2, **settings}  # a drawn program is small, and soon drawn again
        settings = {
            "targets": self._targets(),
            "store": config.getoption("--driftline-store"),
            "plugins": config.getoption(PLUGIN),
            **settings,
        }
        budget = settings.pop("reduce", REDUCE)
        try:
            result = driftline.check(program, example, **settings)
        except driftline.DriftlineError as error:
            if isinstance(error, UnfitTarget) and not _named(self._mark):  # a preset brought it
                pytest.skip(str(error))
            told = str(error)
        else:
            return self._judged_drawn(program, result, budget) if drawn else self._judged(result)
        pytest.fail(told, pytrace=False)

    def _fail_again(self, program: DrawnProgram) -> None:
        """Once a program has failed, raise its failure again without compiling it, and discard every other program."""
        if self._falsified is None:
            return
        from driftline.strategies.falsified import discard
        from driftline.testing.assertions import JudgedWrong

        __tracebackhide__ = True
        if not self._falsified.is_of(program):
            discard()
        raise JudgedWrong(self._falsified.told)

    def _judged_drawn(self, program: DrawnProgram, result: CheckResult, budget: float) -> CheckResult:
        """Judge a drawn program. The reducer, not Hypothesis, shrinks a failure; programs that did not run are
        discarded."""
        from driftline.strategies.falsified import Falsified, discard
        from driftline.testing.assertions import JudgedWrong

        __tracebackhide__ = True
        if not result.compared and not result.internal_error:
            discard()
        try:
            return self._judged(result)
        except JudgedWrong as wrong:
            told = str(wrong)
        self._falsified = Falsified.of(program, result, told, budget)
        raise JudgedWrong(self._falsified.told)

    def _judged(self, result: CheckResult) -> CheckResult:
        from driftline.core.errors import InternalError
        from driftline.core.verdict import Judgement
        from driftline.testing.assertions import JudgedWrong, failure_text

        __tracebackhide__ = True
        for row in result.results:
            self._record(f"driftline.{row.target}", str(row.verdict.judgement))
        for target, bug in result.bugs.items():
            self._record(f"driftline.{target}.bug", bug.id)
        if result.internal_error:
            raise InternalError(result.internal_error)
        if any(row.verdict.judgement is Judgement.FAIL for row in result.results):
            raise JudgedWrong(failure_text(result))
        if not result.compared:
            told = [f"{row.target} {row.verdict.judgement}: {row.verdict.reason}" for row in result.results]
            told += [f"{skipped.target} skipped: {skipped.reason}" for skipped in result.outcome.skipped]
            pytest.skip("nothing was compared: " + "; ".join(told))
        return result

    def _targets(self) -> list[str]:
        if "target" in self._request.fixturenames:
            return [str(self._request.getfixturevalue("target"))]
        if not _named(self._mark):  # a preset is resolved by the check, which knows the program
            return [_usual(self._request.config)]
        return [str(target) for target in _chosen(self._request.config, self._mark)]

    @property
    def _mark(self) -> pytest.Mark | None:
        return self._request.node.get_closest_marker(MARK)

    def _record(self, name: str, value: str) -> None:
        """Add a property to the test's report, for JUnit files and other plugins."""
        self._request.node.user_properties.append((name, value))


def _is_drawn(program: Any) -> bool:
    """True if the program was drawn by `driftline.strategies.programs`."""
    module = sys.modules.get("driftline.strategies.drawn")
    return module is not None and isinstance(program, module.DrawnProgram)


# -- which targets -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Mistake:
    """Stands for the targets of a mark that names a target wrongly; holds the message."""

    told: str


@dataclass(frozen=True)
class _KnownFailure:
    targets: frozenset[str]
    reason: str
    strict: bool

    @staticmethod
    def of(mark: pytest.Mark) -> _KnownFailure:
        if "reason" not in mark.kwargs or not mark.args:
            pytest.fail("known_failing_targets needs targets and a reason=, such as an issue.", pytrace=False)
        targets = frozenset(map(str, _expanded(mark.args)))
        return _KnownFailure(targets, mark.kwargs["reason"], mark.kwargs.get("strict", True))

    def covers(self, target: Target) -> bool:
        return bool({str(target), target.backend} & self.targets)


def _parameter(target: Target, known: Sequence[_KnownFailure]) -> Any:
    from driftline.testing.assertions import JudgedWrong

    marks = [
        pytest.mark.xfail(reason=each.reason, strict=each.strict, raises=JudgedWrong)
        for each in known
        if each.covers(target)
    ]
    return pytest.param(target, id=str(target), marks=marks)


def _chosen(config: pytest.Config, mark: pytest.Mark | None) -> list[Target]:
    """Return the targets of the mark that the command line also selects; without a mark, those of the command line or
    the settings."""
    named = _of_mark(config, mark)
    given = config.getoption(OPTION)
    if not named:
        return _expanded([_usual(config)])
    if not given:
        return named
    wanted = {str(target) for target in _expanded([given])}
    return [target for target in named if {str(target), target.backend} & wanted]


def _of_mark(config: pytest.Config, mark: pytest.Mark | None) -> list[Target]:
    _load_plugins(config)
    return _expanded(_named(mark))


def _load_plugins(config: pytest.Config) -> None:
    from driftline.core.plugins import load_plugins

    _asked(load_plugins, config.getoption(PLUGIN))


def _usual(config: pytest.Config) -> str:
    return str(config.getoption(OPTION) or config.getini(SETTING))


def _named(mark: pytest.Mark | None) -> Sequence[Any]:
    """Return the targets that the mark names, as a list or in command-line syntax; empty without a mark."""
    if mark is None:
        return ()
    if strange := set(mark.kwargs) - {"targets"}:
        pytest.fail(f"@pytest.mark.{MARK} takes targets=[...], not {', '.join(sorted(strange))}=.", pytrace=False)
    named: Any = mark.kwargs.get("targets") or mark.args
    if isinstance(named, Iterable) and not isinstance(named, str):
        return tuple(named)
    return (named,)


def _expanded(names: Sequence[Any]) -> list[Target]:
    """Return the targets of these names. A preset stands for those of its targets that are installed."""
    from driftline.backends import BACKENDS
    from driftline.backends.presets import holds, is_preset
    from driftline.core.target import Target, parse_targets

    found: dict[Target, None] = {}
    for target in [each for name in names for each in _asked(parse_targets, str(name))]:
        if _asked(is_preset, target):
            held = [Target(name) for name in BACKENDS if holds(target.backend, name)]
            found |= dict.fromkeys(each for each in held if not _unavailable(each))
        else:
            _unavailable(target)  # report a wrong name at once
            found[target] = None
    return list(found)


def _unavailable(target: Target) -> str:
    """Return why a target cannot be used here, or an empty string if it can."""
    from driftline.campaign.check.session import require_target
    from driftline.core.errors import BackendUnavailable

    def why(target: Target) -> str:
        try:
            require_target(target)
        except BackendUnavailable as error:
            return str(error)
        return ""

    return str(_asked(why, target))


def _asked(question: Callable[[Any], Any], about: Any) -> Any:
    """Call `question(about)`; a `DriftlineError` fails the test with its sentence alone, without a traceback."""
    from driftline.core.errors import DriftlineError

    try:
        return question(about)
    except DriftlineError as error:
        told = str(error)
    pytest.fail(told, pytrace=False)  # outside of `except`, or pytest would show the error twice
