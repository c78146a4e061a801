"""Each format can be read by what reads it."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import stat
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from filled_store import OPERATORS, add_bug, pair

from driftline.cli import run
from driftline.core.errors import DriftlineError
from driftline.core.verdict import Kind, Status
from driftline.report import write_report
from driftline.report.formats import FORMATS, choose_format, render, write
from driftline.report.gather import compare, gather
from driftline.report.view import ReportView
from driftline.store import Store

VOID = {"meta", "br", "path", "link", "img", "i"}


class Outline(HTMLParser):
    """Checks that tags nest, and collects ids, links and text."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.tags.add(tag)
        self.ids += [str(found["id"])] if "id" in found else []
        self.links += [str(found[key]) for key in ("href", "src") if key in found]
        if tag not in VOID - {"i"}:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def outline(text: str) -> Outline:
    parser = Outline()
    parser.feed(text)
    assert parser.open == []
    return parser


def test_html_nests_and_needs_nothing_from_outside(view: ReportView) -> None:
    text = render(view, "html")
    page = outline(text)
    assert "script" not in page.tags
    assert not re.search(r"url\(|@import|<link", text)
    assert [link for link in page.links if not link.startswith("#")] == []
    assert {link[1:] for link in page.links if link.startswith("#")} <= set(page.ids)
    assert len(page.ids) == len(set(page.ids))
    assert "sigmoid of bfloat16 loses its sign &lt;b&gt;" in text  # what people wrote elsewhere is no markup here
    for bug in view.bugs:
        assert bug.replay in text
        assert bug.id in page.ids
    for words in (
        "prefers-color-scheme",
        "Other compilers on the same program",
        "Not tested",
        "never drawn",
        "Segmentation fault",
    ):
        assert words in text


def test_html_of_a_store_without_hunts(bare_store: Path) -> None:
    text = render(gather(bare_store), "html")
    outline(text)
    assert "no hunt" in text


def test_fifty_bugs_stay_under_two_megabytes(tmp_path: Path) -> None:
    right, wrong = pair((96, 128), "rows")
    with Store.create(tmp_path / "s") as store:
        for number in range(50):
            op = OPERATORS[number % 10]
            compiler = f"compiler{number // 10}"
            add_bug(
                store,
                Kind.WRONG_VALUE,
                compiler=compiler,
                op=op,
                shape=(48, 64),
                expected=right,
                got=wrong,
                log="x" * 9000,
            )
    text = render(gather(tmp_path / "s"), "html")
    assert text.count('class="bug"') == 50
    assert len(text.encode()) < 2_000_000


def test_csv_has_one_row_per_bug(view: ReportView) -> None:
    rows = list(csv.DictReader(io.StringIO(render(view, "csv"))))
    assert [row["id"] for row in rows] == [bug.id for bug in view.bugs]
    assert rows[0]["replay"].startswith(f"driftline replay {view.bugs[0].id} ")


def test_json_is_the_whole_view(view: ReportView) -> None:
    value = json.loads(render(view, "json"))
    assert value["schema"] == 1
    assert len(value["bugs"]) == len(view.bugs)
    assert value["statistics"]["coverage"]["exp"]["float32"]["fail"] > 0
    assert value["matrix"]["openvino"] == {}


def test_json_fields_are_documented(view: ReportView) -> None:
    text = (Path(__file__).parents[2] / "docs" / "json.md").read_text()
    section = text[text.index("## `driftline report --format json`") :]
    value = json.loads(render(view, "json"))
    for key in (*value, *value["bugs"][0], *value["statistics"], *value["bugs"][1]["mismatch"]):
        assert f"`{key}`" in section, key


def test_junit_counts(view: ReportView) -> None:
    root = ET.fromstring(render(view, "junit"))
    suites = {suite.get("name"): suite for suite in root.iter("testsuite")}
    assert set(suites) == {"inductor", "onnxruntime", "tvm", "openvino"}
    assert len(list(root.iter("testcase"))) == len(view.bugs)
    assert len(list(root.iter("failure"))) == 10 == int(root.get("failures", ""))
    assert len(list(root.iter("skipped"))) == 3 == int(root.get("skipped", ""))
    passes = [p.get("value") for p in suites["openvino"].iter("property") if p.get("name") == "openvino.pass"]
    assert passes == [str(next(lane.verdicts["pass"] for lane in view.statistics.lanes if lane.target == "openvino"))]  # type: ignore[union-attr]


def test_junit_survives_what_xml_cannot_hold(tmp_path: Path) -> None:
    with Store.create(tmp_path / "s") as store:
        add_bug(store, Kind.CRASH, log="\x1b[31mred\x00 \ud800")
    root = ET.fromstring(render(gather(tmp_path / "s"), "junit"))
    assert "red" in str(next(root.iter("system-err")).text)


def test_markdown_tables_have_equal_rows(view: ReportView) -> None:
    text = render(view, "md")
    assert text.startswith("# Driftline report\n\n9,600 programs")
    for block in re.findall(r"(?:^\|.*\n)+", text, re.M):
        widths = {len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}
        assert len(widths) == 1, block


# -- comparing -------------------------------------------------------------------------------------------------------


@pytest.fixture
def two(tmp_path: Path) -> tuple[Path, Path]:
    """exp stays, sin is not seen again, tanh is marked as fixed, erf is new, floor came back, abs is new but known."""
    old, new = tmp_path / "old", tmp_path / "new"
    with Store.create(old) as store:
        for op in ("exp", "sin", "tanh"):
            add_bug(store, Kind.WRONG_VALUE, op=op)
        store.mark(add_bug(store, Kind.WRONG_VALUE, op="floor").id, Status.FIXED)
    with Store.create(new) as store:
        for op in ("exp", "erf", "floor"):
            add_bug(store, Kind.WRONG_VALUE, op=op)
        store.mark(add_bug(store, Kind.WRONG_VALUE, op="tanh").id, Status.FIXED)
        store.mark(add_bug(store, Kind.WRONG_VALUE, op="abs").id, Status.KNOWN)
    return old, new


def test_compare_tells_new_fixed_and_still(two: tuple[Path, Path]) -> None:
    found = compare(*two)
    assert {bug.operators[1] for bug in found.new} == {"erf", "floor"}
    assert {(bug.operators[1], found.notes[bug.id]) for bug in found.fixed} == {
        ("sin", "not seen again"),
        ("tanh", "marked as fixed"),
    }
    assert [bug.operators[1] for bug in found.still] == ["exp"]
    assert found.verdict == "2 new bugs, 2 no longer seen, 1 still there."


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_shows_a_comparison(two: tuple[Path, Path], name: str) -> None:
    found = compare(*two)
    text = render(found, name)
    for bug in (*found.new, *found.fixed, *found.still):
        assert bug.id in text
    if name == "html":
        outline(text)
    if name == "junit":
        assert len(list(ET.fromstring(text).iter("failure"))) == 2


# -- the command -----------------------------------------------------------------------------------------------------


def test_the_command_writes_a_page(store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "report.html"
    assert run(["report", "--store", str(store), "--out", str(out)]) == 0
    assert out.read_text().startswith("<!doctype html>")
    assert capsys.readouterr().out == ""
    assert stat.S_IMODE(out.stat().st_mode) & stat.S_IRUSR
    assert list(tmp_path.iterdir()) == [out]  # no half-written file beside it


def test_an_open_store_can_be_reported(store: Path, tmp_path: Path) -> None:
    with Store.open(store) as kept:
        write_report(kept, tmp_path / "r.csv")
    assert (tmp_path / "r.csv").read_text().startswith("id,")


def test_a_report_needs_no_compiler(store: Path) -> None:
    code = "import sys; from driftline.cli import run; run(['report', '--store', sys.argv[1]]); print(*sys.modules)"
    said = subprocess.run([sys.executable, "-c", code, str(store)], capture_output=True, text=True, check=True).stdout
    assert not {"torch", "onnxruntime", "tensorflow", "jax", "tvm", "openvino"} & set(said.splitlines()[-1].split())


def test_the_command_prints_markdown_by_default(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["report", "--store", str(store)]) == 0
    assert capsys.readouterr().out.startswith("# Driftline report")


def test_compare_exits_with_one_only_for_something_new(two: tuple[Path, Path], tmp_path: Path) -> None:
    old, new = map(str, two)
    assert run(["report", "--compare", old, new, "--out", str(tmp_path / "c.json")]) == 1
    assert run(["report", "--compare", new, new, "--out", str(tmp_path / "c.json")]) == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--store", "nowhere"], "There is no store in nowhere"),
        (["--format", "htlm"], "There is no format 'htlm'. Did you mean 'html'?"),
        (["--out", "report.pdf"], "the suffix tells no format"),
        (["--out", "missing/report.html"], "there is no folder missing"),
        (["--out", "."], "suffix"),
        (["--out", ".", "--format", "md"], "is a folder"),
        (["--compare", "{store}", "nowhere"], "There is no store in nowhere"),
        (["--store", "{store}", "--compare", "{store}", "{store}"], "leave --store out"),
    ],
)
def test_bad_input_is_one_sentence(
    arguments: list[str], words: str, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DRIFTLINE_STORE", str(store))
    assert run(["report", *(argument.format(store=store) for argument in arguments)]) == 2
    said = capsys.readouterr().err
    assert words in said
    assert said.count("\n") == 1


def test_a_file_that_cannot_be_written_is_left_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "r.md"
    out.write_text("old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(DriftlineError, match="No space left on device"):
        write(out, "new")
    assert out.read_text() == "old"
    assert list(tmp_path.iterdir()) == [out]


def test_suffixes() -> None:
    assert [choose_format(None, Path(f"a.{s}")) for s in ("HTML", "csv", "md", "json", "xml")] == [
        "html", "csv", "md", "json", "junit",
    ]  # fmt: skip
    assert choose_format("csv", Path("a.txt")) == "csv"
