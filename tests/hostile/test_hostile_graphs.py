"""Hostile models: archives without a pickle whose graph holds Python, which torch runs when the archive is loaded."""

from __future__ import annotations

import contextlib
import functools
import io
import json
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from driftline.core.errors import DriftlineError
from driftline.programs.archive_scan import require_harmless
from driftline.programs.archive_texts import is_guard, is_operator, is_size
from hostile.attack import Attack, both_ways, replacing

torch = pytest.importorskip("torch")
Json = Any


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(3))

    def forward(self, x: Any, scale: int, *, more: Any, mode: str = "plain") -> Any:
        y = torch.nn.functional.gelu(x * scale, approximate="tanh")
        return y * self.weight + x.shape[0] + more["a"]


@functools.cache
def sound() -> bytes:
    dynamic = {"x": {0: torch.export.Dim("n", min=2, max=64)}, "scale": None, "more": {"a": None}, "mode": None}
    given = {"more": {"a": torch.ones(3)}, "mode": "plain"}
    exported = torch.export.export(Model(), (torch.ones(4, 3), 2), given, dynamic_shapes=dynamic)
    file = io.BytesIO()
    torch.export.save(exported, file)
    return file.getvalue()


def archive_with(place: Path, change: Callable[[Json], object]) -> Path:
    """The sound archive with another graph. `change` may return the text of the graph instead."""
    path = place / "m.pt2"
    with zipfile.ZipFile(io.BytesIO(sound())) as given, zipfile.ZipFile(path, "w") as made:
        for entry in given.infolist():
            data = given.read(entry)
            if entry.filename.endswith("models/model.json"):
                graph = json.loads(data)
                found = change(graph)
                data = (found if isinstance(found, str) else json.dumps(graph)).encode()
            made.writestr(entry.filename, data)
    return path


def _ran(path: Path, mark: Path) -> str:
    try:
        require_harmless(path)
    except DriftlineError:
        return ""
    with contextlib.suppress(Exception):
        module = torch.export.load(str(path)).module()
        module(torch.ones(4, 3), 2, more={"a": torch.ones(3)}, mode="plain")
    return "code of the file ran" if mark.exists() else ""


def _attack(change: Callable[[Json, str], object]) -> Callable[[Path], str]:
    """`change` puts an expression into the graph that makes a file."""

    def run(place: Path) -> str:
        mark = place / "ran"
        code = f"open({str(mark)!r}, 'w')"
        return _ran(archive_with(place, lambda graph: change(graph, code)), mark)

    return run


def _all(value: Json, key: str) -> Iterator[dict[str, Json]]:
    """All objects in the graph that have a key."""
    if isinstance(value, dict):
        if key in value:
            yield value
        for inner in value.values():
            yield from _all(inner, key)
    elif isinstance(value, list):
        for inner in value:
            yield from _all(inner, key)


def _size(graph: Json, code: str) -> None:
    for one in _all(graph, "expr_str"):
        one["expr_str"] = f"[{code}, {one['expr_str']}][1]"


def _size_as_text(graph: Json, code: str) -> None:
    """A text that sympy evaluates again."""
    for one in _all(graph, "expr_str"):
        one["expr_str"] = f"sympify({code!r})"


def _size_of_a_symbol(graph: Json, code: str) -> None:
    for one in _all(graph, "expr_str"):
        one["expr_str"] = one["expr_str"].replace("integer=True", f"integer=[{code}, True][1]")


def _guard(graph: Json, code: str) -> None:
    graph["guards_code"] = [f"{code} is None"]


def _guard_behind_a_path(graph: Json, code: str) -> None:
    graph["guards_code"] = [f"L['x'].size()[{code} or 0] >= 2"]


def _guard_by_method(graph: Json, code: str) -> None:
    """Methods of a tensor write files."""
    path = code.partition("'")[2].partition("'")[0]
    graph["guards_code"] = [f"L['x'].numpy().tofile('{path}') is None"]


def _guard_in_a_text(graph: Json, code: str) -> None:
    """Torch writes guards between quotation marks, which a text in a guard ends."""
    text = f" + str({code}) + "
    graph["guards_code"] = [f"L['mode'] != {text!r}"]


def _argument_name(graph: Json, code: str) -> None:
    for one in _all(graph, "forward_arg_names"):
        one["forward_arg_names"][0] = f"x={code}"


def _keyword(graph: Json, code: str) -> None:
    """Keyword arguments are named in the description of the inputs, which is JSON inside of JSON."""
    for one in _all(graph, "in_spec"):
        version, described = json.loads(one["in_spec"])
        described["children_spec"][1]["context"] = json.dumps(["more", f"mode={code}"])
        one["in_spec"] = json.dumps([version, described])
        one["forward_arg_names"] = []


def _parameter_name(graph: Json, code: str) -> None:
    """A name that ends the text in which torch writes it."""
    for one in _all(graph, "parameter_name"):
        one["parameter_name"] = f'weight") or {code} or str("'


def _constant_text(graph: Json, code: str) -> None:
    """Texts among the inputs are compared in a guard, which torch writes itself."""
    for one in _all(graph, "as_string"):
        if one["as_string"] == "plain":
            one["as_string"] = f"' + str({code}) + '"


def _passing(change: Callable[[Json, str], object]) -> Callable[[Path], str]:
    """What this release of torch refuses or cannot execute, and another release may not."""

    def run(place: Path) -> str:
        try:
            require_harmless(archive_with(place, lambda graph: change(graph, "print()")))
        except DriftlineError:
            return ""
        return "the archive passes"

    return run


def _operator(graph: Json, code: str) -> None:
    """Torch looks a name up in its own modules, which have imported others."""
    for node in _all(graph, "target"):
        if node["target"].startswith("torch.ops.aten.gelu"):
            node["target"] = "torch.os.system"
            node["inputs"] = [{"name": "", "arg": {"as_string": "true"}, "kind": 1}]


def _argument_of_an_operator(graph: Json, code: str) -> None:
    for node in _all(graph, "target"):
        if node["target"].startswith("torch.ops.aten.gelu"):
            node["target"] = "torch._functorch.predispatch.lazy_load_decompositions"
            node["inputs"] = [{"name": f"a={code}, b", "arg": {"as_int": 1}, "kind": 2}]


def _module_to_be_imported(graph: Json, code: str) -> None:
    """The class of an enumeration among the inputs: its module is imported."""
    _in_the_output(graph, json.dumps([{"__enum__": True, "fqn": "planted_module:Name", "name": "A"}]), "builtins.dict")


def _imports(change: Callable[[Json, str], object]) -> Callable[[Path], str]:
    """A module that lies where Python looks for modules, and should not be imported because a file says so."""

    def run(place: Path) -> str:
        (place / "planted_module.py").write_text(f"open({str(place / 'ran')!r}, 'w').close()\n")
        with pytest.MonkeyPatch.context() as path:
            path.syspath_prepend(str(place))
            path.delitem(__import__("sys").modules, "planted_module", raising=False)
            return _ran(archive_with(place, lambda graph: change(graph, "")), place / "ran")

    return run


def _factory_to_be_imported(graph: Json, code: str) -> None:
    factory = {"default_factory_module": "planted_module", "default_factory_name": "f", "dict_context": ["a"]}
    _in_the_output(graph, factory, "collections.defaultdict")


def _in_the_output(graph: Json, context: Json, kind: str) -> None:
    for one in _all(graph, "out_spec"):
        version, _ = json.loads(one["out_spec"])
        leaf = {"type": None, "context": None, "children_spec": []}
        one["out_spec"] = json.dumps([version, {"type": kind, "context": context, "children_spec": [leaf]}])


def _too_deep(place: Path) -> str:
    """So deep that one reader of JSON gives up and another, with more room, does not."""
    path = archive_with(place, lambda graph: '{"a": ' + "[" * 100_000)
    try:
        require_harmless(path)
    except DriftlineError:
        return ""
    return "the archive passes"


def _unread(data: bytes) -> Iterator[str]:
    """As before: what could not be read was left to torch."""
    return iter(())


anything = replacing("driftline.programs.archive_scan.suspects_in_graph", _unread)
ATTACKS = [
    Attack("size-is-code", _attack(_size), anything),
    Attack("size-evaluates-a-text", _attack(_size_as_text), anything),
    Attack("size-of-a-symbol", _attack(_size_of_a_symbol), anything),
    Attack("guard-is-code", _attack(_guard), anything),
    Attack("guard-behind-a-path", _attack(_guard_behind_a_path), anything),
    Attack("guard-by-a-method", _attack(_guard_by_method), anything),
    Attack("guard-in-a-text", _attack(_guard_in_a_text), anything),
    Attack("name-of-an-argument", _passing(_argument_name), anything),
    Attack("name-of-a-keyword", _passing(_keyword), anything),
    Attack("name-of-a-parameter", _passing(_parameter_name), anything),
    Attack("text-among-the-inputs", _attack(_constant_text), anything),
    Attack("operator-is-a-function", _passing(_operator), anything),
    Attack("name-in-a-call", _attack(_argument_of_an_operator), anything),
    Attack("class-is-imported", _imports(_module_to_be_imported), anything),
    Attack("function-is-imported", _imports(_factory_to_be_imported), anything),
    Attack("graph-is-too-deep", _too_deep, anything),
]
test_attack_fails = both_ways(ATTACKS)


def test_sound_archive_passes(tmp_path: Path) -> None:
    require_harmless(archive_with(tmp_path, lambda graph: None))


@pytest.mark.parametrize(
    "text",
    [
        "Symbol('s77', positive=True, integer=True)",
        "Add(Mul(Integer(2), Symbol('s77', positive=True, integer=True)), Integer(-3))",
        "Max(Integer(1), TruncToInt(Mul(Float('1.5', precision=53), ToFloat(Symbol('s27', integer=True)))))",
        "GreaterThan(Symbol('u0', integer=True), Integer(2))",
        "s0 + 2*FloorDiv(s1, 3)",
    ],
)
def test_sizes_that_torch_writes_are_sizes(text: str) -> None:
    assert is_size(text)


@pytest.mark.parametrize(
    "text",
    [
        "lambdify(x, 'y')", "Symbol('a').name", "S('1')", "Function('f')(1)", "[1][0]", "x if y else z()", "f'{x}'",
        "(lambda: 1)()", "Integer(1, evaluate=f())", "Symbol(*x)", "Add('text')", "_x", "1 # more", "", "x\n", "x = 1",
        "(x := 1)", "Symbol(\"s\")", "S.One", "ﬁ", "(" * 5000, "-" * 60000 + "1",
    ],
)  # fmt: skip
def test_other_texts_are_no_sizes(text: str) -> None:
    assert not is_size(text)


@pytest.mark.parametrize(
    "text",
    [
        "L['x'].size()[1] != ((-3) + 2*L['x'].size()[0])", "L['x']['k'][0].stride()[1] <= 100", "L['scale'] == 2",
        "math.isnan(L['s'])", "L['s'] == -math.inf", "L['s'] == math.inf", "L['mode'] == 'bilinear'",
        "L['self'].m._modules['linear'].weight.size()[0] == 4", "max(2, L['x'].size()[0]) // 3 % 2 == 0",
    ],
)  # fmt: skip
def test_guards_that_torch_writes_are_guards(text: str) -> None:
    assert is_guard(text)


@pytest.mark.parametrize(
    "text",
    [
        "L['x'].size().__class__", "L['x'].numpy()", "torch.load('x')", "math.os", "L.__getitem__('x')", "L['x']()",
        "open('x')", "L['x'].size(1).y()", "L[f()]", "L['x'].size()[f()]", "args[0]", "L['\\x22']", "L['x'].size()[L]",
        "math.isnan(x)", "(L['x'] == 1, exec)", "L['x'].to_dense.__func__", "torch", "L['x'].apply_(1)", "max(*L)",
    ],
)  # fmt: skip
def test_other_texts_are_no_guards(text: str) -> None:
    assert not is_guard(text)


def test_operators_are_those_that_are_registered() -> None:
    for name in ("torch.ops.aten.add.Tensor", "torch.ops.aten.__and__.Scalar", "torch.ops.higher_order.cond"):
        assert is_operator(name)
    for name in (
        "torch.os.system", "torch.ops.load_library", "torch.ops.load_library.x.y", "torch.ops.aten.__class__.mro",
        "torch.hub.load", "_operator.methodcaller", "math.__loader__", "torch.ops.aten.add.__call__", "os.system",
    ):  # fmt: skip
        assert not is_operator(name)
