"""What is known about a compiler stands in its backend: nothing else asks which compiler it is dealing with."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import driftline
from driftline.backends import BACKENDS
from driftline.core.program import FORMS, FRAMEWORKS
from driftline.core.target import Target
from driftline.diagnose.localize.ladder import rungs

SOURCES = Path(driftline.__file__).parent
# Where the name of a compiler may decide something, and why.
ALLOWED = {
    "backends": "the backends themselves",
    "patterns": "an audit knows the rewrite rules of one compiler: each has a module of its own there",
    "models": "an exporter of torch.onnx is called torchscript, as the compiler is",
    "inductor": "the lab is about torch.compile: its graphs, its kernels, and eager beside them",
    "scenarios": "scripts are about torch.compile: they name its backends themselves, and run eagerly for comparison",
    "campaign/explain/scripts.py": "the stages of torch.compile, on which a script is tried one after the other",
    "diagnose/reduce/scripts/asking.py": "the stage of torch.compile on which a shorter script is tried first",
    "bench": "eager is what every other target is timed beside",
    "perf": "eager is what every other target is timed beside",
    "instabilities/models.py": "a form of file is called torchscript, as the compiler is",
    "instabilities/frameworks.py": "the same form of file",
    "programs/inspect.py": "the same form of file",
    "schedules": "schedules are those of TVM",
    "cli/__init__.py": "a group of commands is called inductor, as the compiler is",
}


def strings(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    for part in getattr(node, "elts", ()):
        yield from strings(part)


def decided_by(node: ast.AST) -> Iterator[str]:
    """The texts that something is compared with, or looked up by."""
    if isinstance(node, ast.Compare):
        for side in (node.left, *node.comparators):
            yield from strings(side)
    elif isinstance(node, ast.MatchValue):
        yield from strings(node.value)
    elif isinstance(node, ast.Dict):
        for key in node.keys:
            yield from strings(key) if key else ()
    elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") in ("startswith", "removeprefix", "partition"):
        for argument in node.args:
            yield from strings(argument)


def compilers_in(text: str) -> list[tuple[int, str]]:
    names = {*BACKENDS.names(), "dynamo:"} - {*FRAMEWORKS, *FORMS}  # some are called as their framework is
    nodes = ast.walk(ast.parse(text))
    return [(node.lineno, name) for node in nodes for name in decided_by(node) if name in names]  # type: ignore[attr-defined]


def test_no_compiler_is_compared_by_name_outside_its_backend() -> None:
    found = [
        f"{path.relative_to(SOURCES)}:{line}: {name}"
        for path in sorted(SOURCES.rglob("*.py"))
        if not {path.relative_to(SOURCES).parts[0], path.relative_to(SOURCES).as_posix()} & set(ALLOWED)
        for line, name in compilers_in(path.read_text())
    ]
    assert not found, "move it into a method of the backend, see backends/base.py"


@pytest.mark.parametrize(
    "text",
    [
        'if target.backend == "tvm": pass',
        'if backend in ("xla", "iree"): pass',
        'table = {"onnxruntime": 1}',
        'name.startswith("dynamo:")',
        'match name:\n    case "inductor": pass',
    ],
)
def test_such_a_comparison_is_seen(text: str) -> None:
    assert compilers_in(text)


def test_everything_that_the_parent_asks_of_a_backend_needs_no_compiler() -> None:
    """In a process of its own, in which no compiler is imported before or after."""
    asked = """
import sys
from driftline.backends import BACKENDS
for name in BACKENDS:
    backend = BACKENDS.get(name)
    backend.ladder(), backend.plainest({}), backend.tracker.sections, backend.settings_text({}), backend.knobs({})
    for framework in ("torch", "onnx", "tensorflow", "jax"):
        backend.script_calls(framework, {})
loaded = {name.partition(".")[0] for name in sys.modules}
print(sorted(loaded & {"torch", "onnx", "onnxruntime", "openvino", "tvm", "iree", "jax", "tensorflow", "executorch"}))
"""
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, timeout=120)
    assert done.stdout == "[]\n", done.stderr


@pytest.mark.parametrize("name", [name for name in BACKENDS.names() if not BACKENDS.get(name).reference])
def test_rungs_are_targets_and_the_plainest_options_are_valid(name: str) -> None:
    backend = BACKENDS.get(name)
    for rung in rungs(Target(name)):
        BACKENDS.get(rung.backend).validate(dict(rung.options), str(rung))
    backend.validate(dict(backend.plainest({}) or {}), name)


def test_every_compiler_has_a_tracker_and_a_script() -> None:
    """But for TensorRT, whose call takes a page, and what others register for torch.compile."""
    compilers = [BACKENDS.get(name) for name in BACKENDS.names() if not BACKENDS.get(name).reference]
    ours = [b for b in compilers if type(b).__module__.startswith("driftline.backends.")]  # tests plant others
    own = [backend for backend in ours if not backend.name.startswith("dynamo:")]
    assert [backend.name for backend in own if not backend.tracker.url] == []
    frameworks = ("torch", "onnx", "tensorflow", "jax")
    silent = [b.name for b in own if not any(b.script_calls(framework, {}) for framework in frameworks)]
    assert silent == ["tensorrt"]
