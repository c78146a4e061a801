"""Names that try to be code, markup or terminal commands, in every exporter and renderer."""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import io
import re
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from markdown_it import MarkdownIt
from onnx import helper

from driftline.backends._dynamo import dynamo_script_calls
from driftline.cli import run
from driftline.core.case import Case, CheckOptions, Inputs
from driftline.core.evidence import NOTHING, Evidence
from driftline.core.program import Program, file_digest
from driftline.core.quoting import string, visible
from driftline.core.target import Target
from driftline.core.verdict import Fingerprint, Kind, Status
from driftline.report import formats
from driftline.report.export.issue import issue_text
from driftline.report.export.script import Exported
from driftline.report.export.subject import Subject
from driftline.report.gather import compare
from driftline.report.screen import Screen
from driftline.report.scripts.calls import first_call
from driftline.report.scripts.check import check_for
from driftline.report.scripts.failure import ShownFailure
from driftline.report.scripts.recipe import Check, Recipe
from driftline.report.scripts.recipe_onnx import onnx_recipe
from driftline.report.scripts.recipe_torch import torch_results
from driftline.report.scripts.render import check_script, make_recipe, regression_test, show_script
from driftline.report.view import ReportView
from driftline.store import Store

BREAKING = 'x\nimport os; os.system("touch /tmp/owned")\n#'
NAMES = {
    "newline": BREAKING,
    "other line ends": "x\r\x0b\x0c\x1c\x85\u2028\u2029y",
    "quotes": """x"'\"""' + __import__("os").getcwd() + '\"""'\"""",
    "backslashes": 'x\\" \\\\" \\N{BULLET} \\x00\\',
    "terminal": "x\x1b[2J\x1b]0;owned\x07\x9b31m\x1b]8;;http://evil\x1b\\ \x08\x08",
    "html": "<script>alert(1)</script><img src=x onerror=alert(1)> \"'><b> &lt;i&gt; ]]>",
    "markdown": "x](http://evil) ![p](http://evil/p) `code` ``` | a | b\n\n# h\n~~~\n<b>@x</b>",
    "bidi": "x\u202e\u2066evil\u2069\u200f\ufeff",
    "markup": "[bold]x[/] [/wrong] [link=http://evil]y[/link] :skull:",
    "format": "{} {0} {x.__class__} %s EXPECTED GOT function",
    "formula": '=cmd|"/C calc"!A0',
    "long": "n" * 2_000,
}
hostile = pytest.mark.parametrize("name", list(NAMES.values()), ids=list(NAMES))


# -- Python ------------------------------------------------------------------------------------------------------------


def skeleton(text: str) -> str:
    """The program that a script is: its statements, with all texts alike."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            node.value = "text"
    return ast.dump(tree)


def onnx_case(folder: Path, name: str, op: str = "Local") -> tuple[Program, dict[str, np.ndarray]]:
    """A model all of whose names are `name`: inputs, weights, values, and an operator that it defines itself."""
    function = helper.make_function(
        "own", op, ["a"], ["b"], [helper.make_node("Neg", ["a"], ["b"])], [helper.make_opsetid("", 18)]
    )
    nodes = [
        helper.make_node(op, [f"{name}0"], ["y"], domain="own", name=name),
        helper.make_node("Add", ["y", f"{name}w"], [f"{name}1"], name=name, doc_string=name),
    ]
    values = [helper.make_tensor_value_info(f"{name}{at}", 1, [2]) for at in range(2)]
    weight = onnx.numpy_helper.from_array(np.array([1, np.nan], np.float32), f"{name}w")
    graph = helper.make_graph(nodes, name, values[:1], values[1:], [weight], doc_string=name)
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)]
    model = helper.make_model(graph, functions=[function], opset_imports=opsets, producer_name=name)
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    return Program("onnx", "onnx", file_digest(path), path, name), {f"{name}0": np.zeros(2, np.float32)}


def scripts(program: Program, arrays: Mapping[str, Any], title: str, target: Target) -> list[str]:
    recipe = onnx_recipe(program, arrays, target)
    check = check_for(ShownFailure(Kind.WRONG_VALUE, Evidence(error=1.0), title), recipe)
    raised = check_for(ShownFailure(Kind.ERROR, NOTHING, title), recipe)
    return [
        show_script(recipe, target),
        check_script(recipe, check, (title,), (f"{title}==1",)),
        regression_test(recipe, check, "case", (title,)),
        check_script(recipe, raised, (title,)),
    ]


@hostile
def test_an_operator_name_of_a_model_is_no_statement_of_its_script(name: str, tmp_path: Path) -> None:
    target = Target.parse("onnxruntime")
    packed, arrays = onnx_case(tmp_path, "x", op=name)
    recipe = onnx_recipe(packed, arrays, target)
    assert skeleton(show_script(recipe, target)) == skeleton(show_script(_like(recipe), target))


def _like(recipe: Recipe) -> Recipe:
    """The same recipe without its comments: what is left must be the same program."""
    bare = tuple(re.sub(r"(?m)^#.*\n", "", text) for text in recipe.definitions)
    return dataclasses.replace(recipe, definitions=bare)


@hostile
def test_names_of_a_model_are_texts_of_its_scripts(name: str, tmp_path: Path) -> None:
    target = Target.parse("onnxruntime:opt=off")
    wanted = scripts(*onnx_case(tmp_path, "\\x"), "a title of an ordinary bug", target)
    made = scripts(*onnx_case(tmp_path, name), f"a title of {name} bug", target)
    for text, plain in zip(made, wanted, strict=True):
        compile(text, "script.py", "exec")
        assert visible(text) == text
        # A model that has a text stands in the script as such; which words of a message tell depends on the message.
        if "parse_model" not in text and "error)" not in text:
            assert skeleton(text) == skeleton(plain)
        inputs = [n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Dict) and n.keys]
        assert any(ast.literal_eval(key) == f"{name}0" for d in inputs for key in d.keys if key)


_PLAIN = {"opt": "'1'", "rules": "llm.rule"}


@hostile
def test_options_of_a_target_are_texts_of_its_script(name: str, tmp_path: Path) -> None:
    program, arrays = onnx_case(tmp_path, "x")
    word = name.replace("+", "")  # separates names
    for backend, option in (
        ("onnxruntime", "disable"),
        ("tvm", "skip"),
        ("tvm", "opt"),
        ("iree", "flags"),
        ("iree", "opt"),
        ("onnxscript", "rules"),
    ):
        made = onnx_recipe(program, arrays, Target(backend, options=((option, word),)))
        plain = onnx_recipe(program, arrays, Target(backend, options=((option, _PLAIN.get(option, "plain")),)))
        shown = [show_script(recipe, Target("tvm")) for recipe in (made, plain) if recipe.got]
        if len(shown) == 2:
            assert skeleton(shown[0]) == skeleton(shown[1])
        else:
            assert backend == "onnxscript" and not made.got  # such a rule is not imported
    for backend in ("torchscript", "aotinductor", "executorch", "xla", "inductor"):
        base = Recipe("torch", (), (), (), ("function = f", "inputs = []"), "{}(*inputs)", "")
        for option in ("mode", "freeze", "simdlen", "fusions", "delegate", "dynamic", "disable"):
            target = Target(backend, options=((option, word),))
            with contextlib.suppress(KeyError, ValueError):  # the backend knows which values there are
                recipe = torch_results(base, target, first_call(target, "torch"))
                compile(check_script(recipe, Check(lines=("GOT", "EXPECTED"))), "script.py", "exec")
    (call,) = dynamo_script_calls(name, "torch")
    assert ast.parse(call.call).body[0].value.keywords[0].value.value == name  # type: ignore[attr-defined]


def test_words_of_a_message_are_not_replaced_by_the_results() -> None:
    recipe = Recipe("numpy", (), (), (), (), 'f("EXPECTED")', "g(GOT)")
    check = check_for(ShownFailure(Kind.ERROR, NOTHING, "I GOT what nobody EXPECTED of this function"), recipe)
    text = check_script(recipe, check)
    assert 'if "I GOT what nobody EXPECTED of this function" not in str(error):' in text
    assert 'print("got:     ", g(GOT))' in text


def test_a_file_that_is_too_large_to_print_is_named_as_a_text(tmp_path: Path) -> None:
    folder = tmp_path / 'a"b\n\\x'
    folder.mkdir()
    program, arrays = onnx_case(folder, "x")
    big = Program("torch", "torch", program.digest, program.path, "x")
    text = show_script(make_recipe(big, arrays, Target("inductor"), room=10), Target("inductor"))
    assert f"PROGRAM = {string(str(program.path))}" in text
    compile(text, "script.py", "exec")


def test_a_graph_with_names_that_are_no_names_is_not_written() -> None:
    torch = pytest.importorskip("torch")

    from driftline.programs.fx_text import program_text
    from driftline.programs.torch_names import Unwritable

    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    graph.output(graph.call_function(torch.relu, (x,)))
    assert "def model(x)" in program_text(graph, {"x": "torch.zeros(2)"}, {})
    x.name = "x=__import__('os').system('true')"  # what a .pt2 archive says
    with pytest.raises(Unwritable, match="is no name"):
        program_text(graph, {x.name: "torch.zeros(2)"}, {})


# -- reports -----------------------------------------------------------------------------------------------------------

_KEPT = ("group", "made", "first_seen", "last_seen")  # words of our own that decide what is shown


def poisoned(value: Any, name: str, field: str = "") -> Any:
    """The same view with the name before every text in it."""
    if field in _KEPT:
        return value
    if isinstance(value, str):
        return f"{name}{value}"
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        changed = {f.name: poisoned(getattr(value, f.name), name, f.name) for f in dataclasses.fields(value)}
        return dataclasses.replace(value, **changed)
    if isinstance(value, Mapping):
        return {poisoned(key, name): poisoned(item, name) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return type(value)(poisoned(item, name) for item in value)
    return value


def plain_for(name: str) -> str:
    """An ordinary name; a colon is the end of a compiler's name in a target."""
    return "plain:" if ":" in name else "plain"


class Page(HTMLParser):
    """The elements and attributes of a page, without the colours of programs."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, tuple[str, ...]]] = []
        self.addresses: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag != "span":
            self.elements.append((tag, tuple(name for name, _ in attrs if name != "open")))
        self.addresses += [value or "" for name, value in attrs if name in ("href", "src")]

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment: {data}")


@hostile
def test_a_page_has_no_element_that_a_name_made(name: str, view: ReportView) -> None:
    page = formats.render(poisoned(view, name), "html")
    made, plain = Page(page), Page(formats.render(poisoned(view, plain_for(name)), "html"))
    assert made.elements == plain.elements
    assert all(address.startswith(("#", "http")) for address in made.addresses)
    assert visible(page) == page


def blocks(text: str) -> list[str]:
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    inside = {child.type for token in tokens for child in token.children or ()}
    assert not inside & {"html_inline", "link_open", "image"}
    return [token.type for token in tokens if token.type not in ("em_open", "em_close")]


@hostile
def test_markdown_has_no_block_that_a_name_made(name: str, view: ReportView) -> None:
    text = formats.render(poisoned(view, name), "md")
    assert blocks(text) == blocks(formats.render(poisoned(view, plain_for(name)), "md"))
    assert visible(text) == text


@hostile
def test_tables_and_test_reports_hold_names_as_values(name: str, view: ReportView) -> None:
    bad = poisoned(view, name)
    ET.fromstring(formats.render(bad, "junit"))
    for form in ("csv", "junit", "json"):
        text = formats.render(bad, form)
        assert visible(text) == text
    for form in ("html", "md", "csv", "junit"):
        one = compare_with(bad)
        assert visible(formats.render(one, form)) == formats.render(one, form)


def compare_with(report: ReportView) -> Any:
    from driftline.report.view import ComparisonView

    bugs = report.bugs[:3]
    words = {bug.id: report.verdict for bug in bugs}
    return ComparisonView(report.store, report.store, report.made, "1", report.verdict, bugs, bugs, bugs, words)


# -- stores as somebody else wrote them --------------------------------------------------------------------------------


def hostile_store(folder: Path, name: str) -> tuple[Path, str]:
    """A bug of a model, with the name wherever a store has text."""
    program, arrays = onnx_case(folder, name)
    program = dataclasses.replace(program, operators=(name, "Add"), outputs=(f"{name}1",))
    case = Case(program, (Inputs(arrays, name),), (Target.parse("onnxruntime"),), CheckOptions())
    right = {f"{name}1": np.zeros(2, np.float32)}
    with Store.create(folder / "store") as store:
        artifacts = {"expected": store.put_tensors(right), "got": store.put_tensors({f"{name}1": np.ones(2, "f4")})}
        verdict = {
            "verdict": "fail",
            "kind": "wrong-value",
            "reason": name,
            "evidence": {"output": f"{name}1", "sample": 0, "expected": name, "got": name},
            "failed_runs": [2, 2],
            "blame": name,
            "artifacts": artifacts,
            "others": {name: name},
            "known": {"title": name, "url": f"javascript:{name}", "note": name},
            "rule": {"name": name, "where": name},
            "mutation": name,
            "without": name,
        }
        failure = {"type": name, "message": name, "traceback": name}
        execution = {"version": name, "failure": failure, "log": name, "outcome": "OK", "stage": "RUN", "durations": {}}
        bug = store.add_finding(
            Fingerprint("onnxruntime", "RUN", "wrong-value", name), case, case.targets[0],
            summary=name, status=Status.NEW, verdict=verdict, execution=execution,
        )  # fmt: skip
    return folder / "store", bug.id


@hostile
def test_browsing_a_store_sends_nothing_to_the_terminal(name: str, tmp_path: Path, capsys: Any) -> None:
    path, bug = hostile_store(tmp_path, name)
    for command in (
        ["bugs", "list"],
        ["bugs", "show", bug],
        ["report"],
        ["bugs", "show", name],
        ["report", "--out", name],
    ):
        assert run([*command, "--store", str(path)]) in (0, 2)
        shown = capsys.readouterr()
        assert visible(shown.out) == shown.out and visible(shown.err) == shown.err
        assert "bug in Driftline" not in shown.err


@hostile
def test_an_issue_text_stays_in_its_sections(name: str, tmp_path: Path) -> None:
    texts = []
    for word in (name, "plain"):
        (tmp_path / string(word)[:3].encode().hex()).mkdir()
        path, bug = hostile_store(tmp_path / string(word)[:3].encode().hex(), word)
        with Store.open(path) as store:
            found = store.bug(bug)
            case = store.load_case(found.findings[0].case_id)
        cure = {"sentence": word, "target": "onnxruntime:opt=off"}
        releases = {"package": word, "summary": word, "trials": []}
        subject = Subject(
            found, found.findings[0], case, found.findings[0].verdict, (word,),
            ablation={"cures": [cure], "note": word}, bisection=releases, reduction={"ended": word, "after": {}},
        )  # fmt: skip
        script = Exported(f"# {word}", False, word, word)
        texts.append(issue_text(subject, script))
        texts.append(issue_text(subject, Exported("", False, word)))
    assert [blocks(text) for text in texts[:2]] == [blocks(text) for text in texts[2:]]
    assert all(visible(text) == text for text in texts)


@hostile
def test_tables_of_rich_show_names_and_obey_none(name: str) -> None:
    from rich.markup import escape
    from rich.panel import Panel
    from rich.table import Table

    file = io.StringIO()
    screen = Screen(file=file, width=80, force_terminal=True)
    table = Table("a", name)
    table.add_row(name, name)
    for thing in (table, Panel(name, title=escape(name)), name):
        screen.print(thing)
    own = re.sub(r"\x1b\[[0-9;]*m|\x1b\]8;[^\x1b]*\x1b\\", "", file.getvalue())
    assert visible(own) == own


def test_a_comparison_of_stores_reads_both(store: Path, bare_store: Path) -> None:
    assert formats.render(compare(bare_store, store), "md")
