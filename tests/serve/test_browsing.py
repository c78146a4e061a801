"""Browsing over HTTP: lists, filters, single bugs, comparisons, and what is said when something is wrong."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from filled_store import add_bug
from serving import Serve

from driftline.core.errors import StoreError
from driftline.core.verdict import Kind, Status
from driftline.serve import kept_page
from driftline.serve.kept_page import KeptPage
from driftline.store import Store


@pytest.fixture(scope="module")
def client(serve: Serve, filled: Path, tmp_path_factory: pytest.TempPathFactory) -> httpx.Client:
    other = tmp_path_factory.mktemp("other") / "store"
    with Store.create(other) as store:
        add_bug(store, Kind.CRASH, compiler="iree", op="tanh")
    return serve(filled, compare=(other,)).client()


def small_store(folder: Path) -> Path:
    with Store.create(folder / "store") as store:
        add_bug(store, Kind.CRASH, compiler="iree", op="tanh")
    return folder / "store"


def listed(text: str) -> list[str]:
    return re.findall(r'href="/bugs/([\w.-]+)">', text)


def sentence(answer: httpx.Response) -> str:
    found = re.search(r'<h1 class="sentence">(.*?)</h1>', answer.text)
    assert found, answer.text[:500]
    return found[1]


def test_the_list_is_that_of_the_store(client: httpx.Client, filled: Path) -> None:
    with Store.open(filled) as store:
        every = {bug.id for bug in store.bugs()}
    assert set(listed(client.get("/bugs").text)) == every


@pytest.mark.parametrize(
    ("asked", "wanted"),
    [
        ({"compiler": "tvm"}, {"compiler": "tvm"}),
        ({"kind": "wrong-value", "compiler": "inductor"}, {"kind": "wrong-value", "compiler": "inductor"}),
        ({"status": "known"}, {"status": "known"}),
        ({"text": "floor"}, {"detail": "floor"}),
        ({"text": "FLOOR tvm"}, {"detail": "floor", "compiler": "tvm"}),
    ],
)
def test_filters(client: httpx.Client, filled: Path, asked: dict[str, str], wanted: dict[str, str]) -> None:
    with Store.open(filled) as store:
        marks = {bug.id: (bug.fingerprint, bug.status) for bug in store.bugs()}
    fits = {
        name
        for name, (mark, status) in marks.items()
        if mark.backend == wanted.get("compiler", mark.backend)
        and mark.kind == wanted.get("kind", mark.kind)
        and status == wanted.get("status", status)
        and wanted.get("detail", "") in mark.detail
    }
    assert fits and set(listed(client.get("/bugs", params=asked).text)) == fits


def test_search_takes_no_wildcards(client: httpx.Client) -> None:
    assert listed(client.get("/bugs", params={"text": "%"}).text) == []
    assert listed(client.get("/bugs", params={"text": "ex_"}).text) == []


def test_orders(client: httpx.Client, filled: Path) -> None:
    with Store.open(filled) as store:
        by_name = sorted(store.bugs(), key=lambda bug: bug.fingerprint.backend)
    shown = listed(client.get("/bugs", params={"order": "compiler"}).text)
    assert [name.partition("-")[0] for name in shown] == [bug.fingerprint.backend for bug in by_name]
    assert shown != listed(client.get("/bugs").text)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"compiler": "inducto"}, "Did you mean &#39;inductor&#39;?"),
        ({"kind": "<script>"}, "kind=&lt;script&gt;: there is no such kind."),
        ({"status": "open"}, "There are: new, confirmed, flaky, known, fixed."),
        ({"order": "id"}, "there is no such order"),
        ({"since": "yesterday"}, "since yesterday: write a date"),
        ({"page": "0"}, "pages are numbered from 1"),
        ({"page": "7"}, "the list has 1 page."),
        ({"page": "x" * 5000}, "pages are numbered from 1"),
    ],
)
def test_a_bad_filter_is_a_sentence(client: httpx.Client, asked: dict[str, str], said: str) -> None:
    answer = client.get("/bugs", params=asked)
    assert answer.status_code == 400
    assert said in sentence(answer)


def test_the_page_of_a_bug_has_all_of_it(client: httpx.Client, filled: Path) -> None:
    with Store.open(filled) as store:
        worst = next(bug for bug in store.bugs() if bug.fingerprint.detail == "mul+exp+sum")
    text = client.get(f"/bugs/{worst.id}").text
    for part in (
        "Expected against got",
        "Where it is wrong",
        '<svg class="plot',
        "Inputs of the failing sample",
        "Other compilers on the same program",
        "See it again",
        "as Python that runs by itself",
        "driftline replay",
    ):
        assert part in text, part
    assert "style=" not in text and "<style" not in text and not re.search(r"<script(?! src=)", text)
    script = client.get(f"/bugs/{worst.id}/script.py")
    assert script.headers["content-disposition"] == f'attachment; filename="{worst.id}.py"'
    assert script.headers["content-type"].startswith("text/plain")
    compile(script.text, "script.py", "exec")


def test_the_beginning_of_a_name_is_enough(client: httpx.Client, filled: Path) -> None:
    with Store.open(filled) as store:
        name = next(bug.id for bug in store.bugs() if bug.fingerprint.kind == "crash")
    assert name in client.get(f"/bugs/{name[:-2]}").text


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/bugs/inductor-000", "There is no bug &#39;inductor-000&#39; in the store"),
        ("/bugs/%3Cb%3E", "There is no bug &#39;&lt;b&gt;&#39;"),
        ("/nothing", "There is no page /nothing."),
        ("/assets/../app.py", "There is no page"),
        ("/assets/..%2fapp.py", "There is no page"),
        ("/bugs/..%2f..%2fetc%2fpasswd", "There is no page"),
    ],
)
def test_what_is_not_there_is_a_page_that_says_so(client: httpx.Client, path: str, said: str) -> None:
    answer = client.get(path)
    assert answer.status_code == 404
    assert said in sentence(answer)


def test_two_stores_compared(client: httpx.Client, filled: Path) -> None:
    form = client.get("/compare").text
    (other,) = re.findall(r"<option>(.*?)</option>", form)
    compared = client.get("/compare", params={"with": other, "first": "this"})
    assert "1 new bug" in compared.text and "iree-" in compared.text
    assert "<h2>No longer seen <span" in compared.text
    unknown = client.get("/compare", params={"with": str(filled)})
    assert unknown.status_code == 400 and "was not started with --compare" in sentence(unknown)


def test_the_report_is_that_of_the_command(client: httpx.Client) -> None:
    answer = client.get("/report")
    assert "What was tested, and what was not" in answer.text
    assert '<a href="/bugs">back to the bugs</a>' in answer.text
    assert "script-src" not in answer.headers["content-security-policy"]  # default-src 'none' holds for scripts
    assert "default-src 'none'" in answer.headers["content-security-policy"]


def test_the_report_is_made_again_when_the_store_has_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = small_store(tmp_path)
    made: list[int] = []

    def make() -> str:
        with Store.open(store) as opened:  # as the report does: a reader that comes and goes is no change
            made.append(len(opened.bugs()))
        return f"page {len(made)}"

    page = KeptPage(store, make)
    monkeypatch.setattr(kept_page, "SETTLED", 3_600_000_000_000)  # an hour: a busy machine takes seconds to get here
    page.text()
    assert page.text() == "page 2", "the store was changed just now, so that its stamp might miss a further change"
    monkeypatch.setattr(kept_page, "SETTLED", 0)
    assert [page.text() for _ in range(3)] == ["page 3"] * 3
    with Store.create(store) as writer:
        writer.mark(writer.bugs()[0].id, Status.KNOWN)
        assert page.text() == "page 4", "what a job has written and not yet moved into the database counts"
        assert page.text() == "page 4"
    page.text()
    last = len(made)
    assert page.text() == f"page {last}" and last <= 5


def test_a_report_that_could_not_be_made_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_page, "SETTLED", 0)
    store = small_store(tmp_path)
    answers: Iterator[StoreError | str] = iter([StoreError("busy"), "page"])

    def make() -> str:
        answer = next(answers)
        if isinstance(answer, StoreError):
            raise answer
        return answer

    page = KeptPage(store, make)
    with pytest.raises(StoreError):
        page.text()
    assert page.text() == page.text() == "page"


def test_coverage_is_that_of_the_command(client: httpx.Client) -> None:
    answer = client.get("/coverage")
    assert "four levels of a test pyramid" in answer.text
    assert '<a href="/bugs">back to the bugs</a>' in answer.text
    assert "default-src 'none'" in answer.headers["content-security-policy"]


def test_a_store_that_is_gone_or_damaged_is_a_sentence(serve: Serve, tmp_path: Path) -> None:
    place = tmp_path / "store"
    with Store.create(place) as store:
        add_bug(store, Kind.ERROR)
    client = serve(place).client()
    (place / "store.db").write_bytes(b"no database")
    answer = client.get("/bugs")
    assert answer.status_code == 503 and "is not a Driftline store" in sentence(answer)
    for path in place.glob("store.db*"):
        path.unlink()
    answer = client.get("/bugs")
    assert answer.status_code == 503 and "There is no store in" in sentence(answer)


def test_a_damaged_bug_is_named_and_the_others_are_shown(serve: Serve, tmp_path: Path) -> None:
    place = tmp_path / "store"
    with Store.create(place) as store:
        good, bad = add_bug(store, Kind.ERROR, op="exp"), add_bug(store, Kind.CRASH, op="sin")
    with sqlite3.connect(place / "store.db") as database:
        database.execute("UPDATE findings SET verdict = '{' WHERE bug = ?", (bad.id,))
    client = serve(place).client()
    text = client.get("/bugs").text
    assert listed(text) == [good.id]
    assert bad.id in text and "damaged" in text
    assert client.get(f"/bugs/{bad.id}").status_code == 503


def test_what_is_wrong_and_what_is_slow_can_be_explained(serve: Serve, tmp_path: Path) -> None:
    place = tmp_path / "store"
    with Store.create(place) as store:
        bugs = add_bug(store, Kind.ERROR), add_bug(store, Kind.SLOW)
    client = serve(place).client()
    assert all("/jobs/new/diagnosis" in client.get(f"/bugs/{bug.id}").text for bug in bugs)
    reading = serve(place, read_only=True).client()
    assert not any("/jobs/new/diagnosis" in reading.get(f"/bugs/{bug.id}").text for bug in bugs)


def test_names_are_data(serve: Serve, tmp_path: Path) -> None:
    place = tmp_path / "<img src=x onerror=alert(1)>"
    with Store.create(place) as store:
        bug = add_bug(store, Kind.ERROR, detail="</td><script>alert(1)</script>\x1b[31m", reason="<b>bold</b>\u202e")
    client = serve(place).client()
    for path in ("/bugs", f"/bugs/{bug.id}", "/jobs", "/bugs?text=<script>", "/report", "/coverage"):
        text = client.get(path).text
        assert "<script>alert" not in text and "<img src=x" not in text and "<b>bold" not in text, path
        assert "\x1b" not in text and "\u202e" not in text


def test_thousands_of_bugs_are_paged(serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page of 5,000 bugs asks the database as often as a page of fifty, and is as long."""
    place = tmp_path / "store"
    with Store.create(place) as store:
        made = add_bug(store, Kind.ERROR, status=Status.NEW)
    with sqlite3.connect(place / "store.db") as database:
        for number in range(4999):
            name = f"tvm-{number:08x}"
            database.execute(
                "INSERT INTO bugs SELECT ?, json_set(fingerprint, '$.backend', 'tvm', '$.detail', ?), status, summary,"
                " ?, last_seen FROM bugs WHERE id = ?",
                (name, f"op{number}", f"2026-01-01T00:{number // 60 % 60:02}:{number % 60:02}Z", made.id),
            )
            database.execute(
                "INSERT INTO findings (bug, case_id, target, verdict, execution, created)"
                " SELECT ?, case_id, target, verdict, execution, created FROM findings WHERE bug = ?",
                (name, made.id),
            )
    asked: list[str] = []
    query = Store.query
    monkeypatch.setattr(Store, "query", lambda self, sql, *more: asked.append(sql) or query(self, sql, *more))
    client = serve(place).client()
    asked.clear()
    first = client.get("/bugs").text
    assert 0 < len(asked) <= 10 and len(first) < 100_000, (len(asked), len(first))
    assert "5,000 bugs in 2 compilers" in first and "1 to 50 of 5,000" in first and len(listed(first)) == 50
    (onwards,) = re.findall(r'rel="next" href="(.*?)"', first)
    second = client.get(onwards).text
    assert "51 to 100 of 5,000" in second and not set(listed(first)) & set(listed(second))
    last = client.get("/bugs", params={"page": "100"}).text
    assert "4,951 to 5,000" in last and 'rel="next"' not in last
    assert listed(client.get("/bugs", params={"text": "op4711"}).text) == ["tvm-00001267"]
    assert client.get("/bugs/tvm-00001267").status_code == 200
