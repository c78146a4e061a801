"""Lists of bugs are chosen by the database, and a bug is found by its primary key."""

from __future__ import annotations

import json
import re
import urllib.parse
from pathlib import Path

import pytest

from driftline.campaign.explain.failing import find_bug_of_case
from driftline.cli import run
from driftline.core.errors import DriftlineError
from driftline.core.verdict import Fingerprint
from driftline.report import gather as gather_module
from driftline.report import pages
from driftline.report.gather import gather
from driftline.report.html import render
from driftline.store import Store
from driftline.store.listing import BugFilter, count_bugs, findings_count, list_bugs, query_of, versions_seen

MARKS = [
    Fingerprint("tvm", "RUN", "wrong-value", "relu(float32)"),
    Fingerprint("tvm", "RUN", "wrong-value", "relu(float64)"),
    Fingerprint("tvm", "RUN", "crash", "SIGSEGV in sort"),
    Fingerprint("inductor", "COMPILE", "error", "KeyError: #"),
]


@pytest.fixture
def store(store_folder: Path) -> Store:
    """Four bugs with three findings each, whose programs are lost."""
    made = Store.create(store_folder)
    with made.transaction() as database:
        for day, mark in enumerate(MARKS, 1):
            seen = f"2026-01-0{day}T00:00:00Z"
            body = (mark.bug_id, json.dumps(mark.to_json()), "new", f"about {mark.detail}", seen, seen)
            database.execute("INSERT INTO bugs VALUES (?, ?, ?, ?, ?, ?)", body)
            for number in range(3):
                case = f"{mark.bug_id}-{number}"
                database.execute("INSERT INTO cases VALUES (?, '{}', ?)", (case, seen))
                finding = (mark.bug_id, case, "tvm", '{"verdict": "fail"}', '{"version": "1"}', seen)
                columns = "bug, case_id, target, verdict, execution, created"
                database.execute(f"INSERT INTO findings ({columns}) VALUES (?, ?, ?, ?, ?, ?)", finding)
        database.execute("UPDATE bugs SET status = 'known' WHERE id = ?", (MARKS[2].bug_id,))
    return made


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (BugFilter(), [1, 0, 3, 2]),  # wrong values, the newer first; an error; a crash that is known
        (BugFilter(compiler="tvm"), [1, 0, 2]),
        (BugFilter(compiler="tvm", kind="wrong-value"), [1, 0]),
        (BugFilter(status="known"), [2]),
        (BugFilter(since="2026-01-03"), [3, 2]),
        (BugFilter(kind="error"), [3]),
        (BugFilter(compiler="tvm", since="2026-01-04"), []),
    ],
    ids=str,
)
def test_filters(store: Store, wanted: BugFilter, found: list[int]) -> None:
    assert [bug.id for bug in list_bugs(store, wanted)] == [MARKS[n].bug_id for n in found]
    assert count_bugs(store, wanted) == len(found)
    assert len(list_bugs(store, wanted, most=1)) == min(1, len(found))


def test_a_bug_is_found_by_its_primary_key(store: Store) -> None:
    mark = MARKS[3]
    assert store.bug(mark.bug_id[:-2]).id == store.bug(mark.bug_id).id == mark.bug_id
    with pytest.raises(DriftlineError, match="may be any of tvm-"):
        store.bug("tvm-")
    with pytest.raises(DriftlineError, match="There is no bug 'induct%'"):
        store.bug("induct%")


@pytest.mark.parametrize(
    ("wanted", "index"),
    [
        (BugFilter(compiler="tvm"), "bugs_by_compiler"),
        (BugFilter(compiler="tvm", kind="crash"), "bugs_by_compiler"),
        (BugFilter(kind="crash"), "bugs_by_kind"),
        (BugFilter(status="known"), "bugs_by_status"),
        (BugFilter(since="2026-01-03"), "bugs_by_first_seen"),
    ],
    ids=str,
)
def test_lists_are_chosen_by_an_index(store: Store, wanted: BugFilter, index: str) -> None:
    question, values = query_of(wanted)
    assert f"SEARCH bugs USING INDEX {index}" in plan_of(store, question, values)


def test_no_table_is_read_to_find_one_bug(store: Store) -> None:
    """What `bug`, `find_failing` and the lists ask, as the database was asked it."""
    asked: list[str] = []
    store._database.set_trace_callback(asked.append)
    store.bug(MARKS[3].bug_id)
    list_bugs(store, BugFilter(compiler="tvm"))
    find_bug_of_case(store, f"{MARKS[0].bug_id}-1")
    versions_seen(store)
    findings_count(store)
    store._database.set_trace_callback(None)
    assert len(asked) >= 6
    for question in asked:
        plan = plan_of(store, question)
        assert not re.search(r"SCAN \w+\b(?! USING)", plan), f"{question}\n{plan}"


def plan_of(store: Store, question: str, values: tuple[str, ...] = ()) -> str:
    return "\n".join(row[3] for row in store.query(f"EXPLAIN QUERY PLAN {question}", values))


def test_a_damaged_fingerprint_is_a_gap_in_every_list(store: Store) -> None:
    with store.transaction() as database:
        database.execute("UPDATE bugs SET fingerprint = '{' WHERE id = ?", (MARKS[1].bug_id,))
    assert [bug.id for bug in list_bugs(store, BugFilter(compiler="tvm"))] == [MARKS[0].bug_id, MARKS[2].bug_id]
    assert len(list_bugs(store)) == 3 and len(store.gaps) == 1


def test_the_command_filters_cuts_and_says_what_looks_alike(store: Store, capfd: pytest.CaptureFixture[str]) -> None:
    place = ["--store", str(store.path)]
    assert run(["bugs", "list", "--limit", "2", *place]) == 0
    out = capfd.readouterr().out
    assert "The most serious 2 of 4" in out
    assert run(["bugs", "list", "--kind", "wrong-value", "--json", *place]) == 0
    told = json.loads(capfd.readouterr().out)
    assert [(bug["id"], bug["like"]) for bug in told["bugs"]] == [
        (MARKS[1].bug_id, MARKS[0].bug_id),
        (MARKS[0].bug_id, None),
    ]
    assert told["total"] == 2
    assert len(told["bugs"][0]["findings"]) == 3
    assert run(["bugs", "list", "--compiler", "tmv", *place]) == 2
    assert "Did you mean 'tvm'" in capfd.readouterr().err
    assert run(["bugs", "list", "--since", "yesterday", *place]) == 2
    assert "write a date such as 2026-01-31" in capfd.readouterr().err


def test_of_many_bugs_a_report_tells_the_worst_in_full(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gather_module, "DETAILED", 2)
    report = gather(store.path)
    assert [bug.detailed for bug in report.bugs] == [True, True, False, False]
    assert [bug.sightings for bug in report.bugs] == [3] * 4
    page = render(report)
    for bug in report.bugs:
        assert page.count(f'id="{bug.id}"') == bug.detailed
        assert f">{bug.id}</" in page or bug.group != "open"
    assert "The worst 2 are told in full below" in page


def test_the_others_have_pages_of_their_own(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gather_module, "DETAILED", 3)
    monkeypatch.setattr(pages, "IN_FULL", 2)
    out = tmp_path / "all bugs.html"
    assert run(["report", "--out", str(out), "--store", str(store.path)]) == 0
    assert "all bugs-bugs" in capfd.readouterr().err
    page = out.read_text()
    links = re.findall(r'href="(all%20bugs-bugs/[^"]+)"', page)
    assert len(links) == 2
    for link in links:
        single = tmp_path / urllib.parse.unquote(link)
        text = single.read_text()
        assert f'id="{single.stem}"' in text and 'href="../all%20bugs.html"' in text and len(text) < 10_000
        assert (single.parent / "style.css").is_file()
    single.unlink()
    (single.parent / "elsewhere").write_text("mine")
    single.symlink_to("elsewhere")
    assert run(["report", "--out", str(out), "--store", str(store.path)]) == 2, "a link is not followed"
    assert (single.parent / "elsewhere").read_text() == "mine"
    assert "cannot be written" in capfd.readouterr().err
