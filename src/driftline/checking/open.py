"""Opens what a user names (`model.onnx`, `model.pt2`, `model.pt`, `file.py:name`, `model:NAME`) as a `Program` with an
example."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

from driftline.checking.kinds import worker_for_framework
from driftline.core import strangers
from driftline.core.case import CheckOptions, Deployed
from driftline.core.errors import DriftlineError, TooLarge
from driftline.core.files import copy_file
from driftline.core.handover import handed, handed_file
from driftline.core.packages import extra_command
from driftline.core.program import Program, SourceBundle, file_digest
from driftline.core.tensors import Arrays, Shape, load_tensors
from driftline.core.text import did_you_mean, last_words
from driftline.execute.pool import Pool, WorkerStartError
from driftline.inputs.room import require_room_for_value, room_for_inputs
from driftline.inputs.sizes import NOT_GIVEN, Sizes
from driftline.models import find, source_text
from driftline.programs.archive_scan import require_harmless
from driftline.programs.described import INSPECT, Described, InspectRequest
from driftline.programs.known import NOTHING_KNOWN, Known
from driftline.programs.source import guess_framework
from driftline.programs.torchscript_file import require_torchscript

MODEL = "model:"  # a model of the corpus, by its name


@dataclass(frozen=True)
class LoadedProgram:
    """A program and, if it comes with one, an example of its inputs."""

    program: Program
    example: Arrays
    known: Known = NOTHING_KNOWN  # the known ranges of inputs, and relations between their dimensions
    deployed: Deployed | None = None  # the file to run in its place
    without: str = ""  # unknown operators that were removed from an ONNX model
    judgeable: tuple[tuple[str, ...], tuple[str, ...]] = (
        (),
        (),
    )  # outputs that do not depend on the removed operators; all outputs
    notes: tuple[str, ...] = ()  # notes for the reader of the results
    trained: bool = False  # the program asks for gradients: see `programs/trained.py`

    @property
    def runs(self) -> Program:
        """The program that the targets run."""
        return self.deployed.program if self.deployed else self.program


ENTRY_POINTS = (
    "torch.compile, torch._dynamo.optimize, torch.export, torch.jit, torch._inductor.aoti_compile_and_package, or"
    " torch.onnx.export with onnxruntime"
)


def open_program(text: str, pool: Pool, options: CheckOptions, sizes: Sizes = NOT_GIVEN) -> LoadedProgram:
    """Read the program that `text` names. Raises DriftlineError for every mistake in it. `sizes`: shapes that a file
    does not define, such as the inputs of a TorchScript module."""
    if text.startswith(MODEL):
        return _open_model(text.removeprefix(MODEL), pool, options)
    module, _, entry = text.partition(".py:")
    if entry:
        return _open_source(Path(f"{module}.py"), entry, pool, options)
    path = Path(text)
    if not path.is_file():
        raise _no_file(path)
    if path.suffix == ".py":
        example, *others = _factories(path) or ["program"]
        told = f" It also has: {', '.join(others[:8])}." if others else ""
        if not _factories(path):
            told = f" A script is judged as it stands where it calls {ENTRY_POINTS}."
        raise DriftlineError(f"{text}: say which callable of the file makes the program, as in {text}:{example}.{told}")
    if path.suffix == ".onnx":
        return _open_file(path, "onnx", "onnx", pool, options)
    if path.suffix == ".pt2":
        require_harmless(path, text)
        return _open_file(path, "torch", "torch", pool, options)
    if path.suffix == ".pt":
        require_torchscript(path, text)
        require_harmless(path, text)
        return _open_file(path, "torchscript", "torch", pool, options, sizes)
    raise DriftlineError(
        f"{text}: the kind of program is told by its name; give model.onnx, model.pt2, model.pt (TorchScript),"
        " file.py:name or model:NAME."
    )


def _open_model(name: str, pool: Pool, options: CheckOptions) -> LoadedProgram:
    """Open a model of the corpus, as a small file that builds it in whichever worker needs it."""
    entry = find(name)
    entry.require_packages()
    bundle = SourceBundle("model.py", "program", {"model.py": source_text(name)})
    opened = open_source(bundle, pool, options, name=f"{MODEL}{name}")
    return replace(opened, trained=opened.trained or entry.grad)


def _factories(path: Path) -> list[str]:
    """Return the functions of a file that can be called without arguments, found by parsing: the file is not run."""
    try:
        parsed = ast.parse(path.read_text())
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError):  # the last two for deeply nested code
        return []
    functions = [node for node in parsed.body if isinstance(node, ast.FunctionDef)]
    return [
        one.name
        for one in functions
        if len(one.args.posonlyargs) + len(one.args.args) == len(one.args.defaults) and None not in one.args.kw_defaults
    ]


def _no_file(path: Path) -> DriftlineError:
    if path.is_dir():
        return DriftlineError(f"{path} is a folder; name the file of the program that is in it.")
    return DriftlineError(f"{path}: there is no such file.{_near_file(path)}")


def _near_file(path: Path) -> str:
    if not path.parent.is_dir():
        return f" The folder {path.parent} does not exist either."
    return did_you_mean(path.name, [p.name for p in path.parent.iterdir()])


def _open_source(path: Path, entry: str, pool: Pool, options: CheckOptions) -> LoadedProgram:
    if not path.is_file():
        raise _no_file(path)
    try:
        text = path.read_text()
        compile(text, str(path), "exec")
    except UnicodeDecodeError as error:
        raise DriftlineError(f"{path} is not a Python file: it is not text.") from error
    except SyntaxError as error:
        raise DriftlineError(f"{path} has a syntax error in line {error.lineno}: {error.msg}.") from error
    strangers.admit()
    bundle = SourceBundle(path.name, entry, {path.name: text})
    return open_source(bundle, pool, options, origin=str(path.resolve()), name=f"{path.name}:{entry}")


def open_source(
    bundle: SourceBundle, pool: Pool, options: CheckOptions, *, origin: str = "", name: str = ""
) -> LoadedProgram:
    """Open a source program, from a file or made by Driftline itself."""
    stored = _keep_bundle(bundle, pool)
    framework = guess_framework(bundle.text)
    label = name or f"{bundle.entry_file}:{bundle.entry_name}"
    described = _inspect(pool, framework, options, form="source", path=stored, origin=origin, name=label)
    if described.siblings:
        bundle = SourceBundle(bundle.entry_file, bundle.entry_name, {**bundle.files, **described.siblings})
        stored = _keep_bundle(bundle, pool)
    if described.onnx:
        return _described_program(
            handed_file(described.onnx, options.memory_limit), "onnx", label, described, pool, options
        )
    opened = _described_program(stored, "source", label, described, pool, options)
    return replace(opened, program=replace(opened.program, origin=origin))


def _open_file(
    path: Path, form: str, framework: str, pool: Pool, options: CheckOptions, sizes: Sizes = NOT_GIVEN
) -> LoadedProgram:
    shapes = {name: several[0] for name, several in sizes.shapes.items()}
    described = _inspect(pool, framework, options, form=form, path=path.resolve(), name=path.name, shapes=shapes)
    if described.archive:
        archive = handed_file(described.archive, options.memory_limit)
        return _described_program(archive, "torch", path.name, described, pool, options)
    source = handed_file(described.onnx, options.memory_limit) if described.onnx else path.resolve()
    return _described_program(source, form, path.name, described, pool, options)


def _inspect(
    pool: Pool,
    framework: str,
    options: CheckOptions,
    *,
    form: str,
    path: Path,
    name: str,
    origin: str = "",
    shapes: Mapping[str, Shape] = MappingProxyType({}),
) -> Described:
    request = InspectRequest(form, path, name, pool.workspace.job_folder(), origin, options.seed, shapes)
    try:
        report = pool.run(
            worker_for_framework(framework),
            INSPECT,
            request,
            timeout=options.timeout,
            memory_limit=options.memory_limit,
            fresh=True,  # importing a user's module changes the process
        )
    except WorkerStartError as error:
        raise DriftlineError(
            f"{name} needs {framework}, which cannot be imported here: {error}."
            f" It comes with: {extra_command(framework)}"  # the extras have the names of the frameworks
        ) from error
    if report.answer is None:
        words = {
            "timeout": f"did not load within {options.timeout:g} s; raise --timeout",
            "memory": f"ran out of memory while loading ({report.detail})",
            "died": f"killed its process while loading ({report.detail}). Its last words: {last_words(report.log)}",
        }
        raise DriftlineError(f"{name} {words[report.ending]}.")
    if report.answer.described is None:
        raise DriftlineError(report.answer.problem)
    return report.answer.described


def _described_program(
    path: Path, form: str, name: str, described: Described, pool: Pool, options: CheckOptions
) -> LoadedProgram:
    if described.largest:
        require_room_for_value(described.largest, name, options.memory_limit)
    digest = file_digest(path)
    for data_file in described.data:
        _keep_file(path.with_name(data_file), data_file, pool)
    program = Program(
        form=form,
        framework=described.framework,
        digest=digest,
        path=_keep_file(path, digest, pool),
        name=name,
        inputs=described.inputs,
        outputs=described.outputs,
        operators=described.operators,
        data=described.data,
        weights=described.weights or (path.stat().st_size if form in ("torch", "onnx") else 0),
        state=described.state,
    )
    room = room_for_inputs(options.memory_limit)
    try:
        example = load_tensors(handed(described.example), most=room) if described.example else {}
    except TooLarge as error:
        raise TooLarge(f"The example inputs of {name}: {error}. Give smaller ones, or raise --memory.") from error
    known = described.known
    if program.operators:
        known = replace(known, size=len(program.operators))
    return LoadedProgram(
        program,
        example,
        known,
        without=described.without,
        judgeable=described.judgeable,
        notes=described.notes,
        trained=described.trained,
    )


def _keep_bundle(bundle: SourceBundle, pool: Pool) -> Path:
    data = bundle.dump()
    path = pool.workspace.root / "programs" / hashlib.sha256(data).hexdigest()
    path.write_bytes(data)
    return path


def _keep_file(path: Path, name: str, pool: Pool) -> Path:
    """Return a private copy of a file, since the user may change or remove the file during a run."""
    kept = pool.workspace.root / "programs" / name
    if not kept.exists():
        copy_file(path, kept)
    return kept
