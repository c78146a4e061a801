"""Every page and every button, in a real browser."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from filled_store import add_bug, fill
from serving import Serve, Served

from driftline.core.verdict import Kind
from driftline.store import Store
from driftline.testing import planted_plugin

SHORT, LONG = 60_000, 300_000  # milliseconds that a busy machine may take for a page, and for a job
WIDER = """() => [...document.querySelectorAll('*')].filter(
    e => !e.closest('.scroll, pre, svg, .skip, .hidden') && e.getBoundingClientRect().right > innerWidth + 1
).map(e => e.tagName + '.' + e.className)"""
PICTURE = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c6360606060000000050001"
    "a5f645400000000049454e44ae426082"
)
SANDBOXED = """<img src="dot.png"><p id="p"></p><script>
document.getElementById("p").textContent = "script ran";
try { document.cookie; } catch (error) { document.title = "no cookies"; }
fetch("/jobs/new/hunt", {method: "POST"}).catch(() => { document.getElementById("p").textContent += ", not fetched"; });
</script>"""


@pytest.fixture(scope="module")
def server(serve: Serve, tmp_path_factory: pytest.TempPathFactory) -> Served:
    top = tmp_path_factory.mktemp("browser")
    place = fill(top / "store")
    with sqlite3.connect(place / "store.db") as database:  # more than fit on a page
        for number in range(50):
            for table, columns in (
                ("bugs", "json_set(fingerprint, '$.detail', 'more'), status, summary, first_seen, last_seen"),
                ("findings (bug, case_id, target, verdict, execution, created)",
                 "case_id, target, verdict, execution, created"),
            ):  # fmt: skip
                name = table.partition(" ")[0]
                database.execute(
                    f"INSERT INTO {table} SELECT ?, {columns} FROM {name} WHERE {'id' if name == 'bugs' else 'bug'} ="
                    " (SELECT id FROM bugs WHERE id LIKE 'tvm-%' AND status = 'new' ORDER BY id LIMIT 1)",
                    (f"tvm-more{number}",),
                )
    with Store.create(top / "other") as store:
        add_bug(store, Kind.CRASH, compiler="iree", op="tanh")
    (top / "pages").mkdir()
    (top / "pages" / "page.html").write_text(SANDBOXED)
    (top / "pages" / "dot.png").write_bytes(PICTURE)
    return serve(
        place, compare=(top / "other",), folders=(top / "pages",), plugins=(planted_plugin(),), cores=2, upload=1 << 16
    )


@pytest.fixture
def page(browser: Any, server: Served) -> Iterator[Any]:
    """A window that has opened the printed address; what its console complains of fails the test."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.grant_permissions(["clipboard-read", "clipboard-write"], origin=server.origin)
    page = context.new_page()
    page.set_default_timeout(SHORT)
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(server.address)
    yield page
    context.close()
    assert complaints == []


def shown(page: Any) -> list[str]:
    return page.locator("table.index tbody td:first-child").all_inner_texts()


def test_choosing_and_turning_pages(page: Any, server: Served) -> None:
    assert page.url == f"{server.origin}/bugs"  # the token is gone from the address
    assert page.locator("h1").inner_text() == "63 bugs in 3 compilers"
    first = shown(page)
    page.get_by_role("link", name="Next").click()
    page.get_by_text("51 to 63 of 63").wait_for()
    assert not set(first) & set(shown(page))
    page.get_by_role("link", name="Previous").click()
    page.get_by_text("1 to 50 of 63").wait_for()
    page.locator("select[name=compiler]").select_option("onnxruntime")
    page.get_by_role("button", name="Show", exact=True).click()
    page.get_by_role("heading", name="4 bugs of 63").wait_for()
    assert all(name.startswith("onnxruntime-") for name in shown(page))
    page.get_by_label("Search").fill("log1p")
    page.get_by_label("Search").press("Enter")
    page.get_by_role("heading", name="1 bug of 63").wait_for()
    page.get_by_role("link", name="Show all").click()
    page.get_by_role("heading", name="63 bugs in").wait_for()
    page.get_by_title("1 bug: tvm, crash").click()
    page.get_by_role("heading", name="1 bug of 63").wait_for()
    page.get_by_label("First seen since").fill("2h")
    page.locator("select[name=order]").select_option("newest")
    page.get_by_role("button", name="Show", exact=True).click()
    page.wait_for_url("**/bugs?*order=newest*")
    assert len(shown(page)) == 1


def test_a_bug_is_read_copied_and_downloaded(page: Any, server: Served) -> None:
    page.get_by_role("link", name=re.compile("^inductor-")).first.click()
    assert page.locator("svg.plot").first.is_visible()
    folded = page.locator("details", has=page.locator("summary", has_text="The program"))
    program = folded.locator("pre")
    if not program.is_visible():
        folded.locator("summary").click()
    folded.get_by_role("button", name="Copy").click()
    page.get_by_role("button", name="Copied").wait_for()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied == program.inner_text() and "import torch" in copied
    with page.expect_download() as download:
        page.get_by_role("link", name="Download the script").click()
    assert download.value.suggested_filename.endswith(".py")
    page.locator(".copied", has_text="driftline replay").get_by_role("button", name="Copy").click()
    page.get_by_role("button", name="Copied").nth(0).wait_for()
    page.get_by_role("link", name="Report").click()
    page.get_by_role("heading", name="What was tested, and what was not").wait_for()


def test_comparing(page: Any) -> None:
    page.get_by_role("link", name="Compare").click()
    page.get_by_label("this store").check()
    page.get_by_role("button", name="Compare").click()
    page.get_by_role("heading", name="1 new bug").wait_for()
    assert page.get_by_role("link", name="Compare").get_attribute("aria-current") == "page"


def test_a_page_of_a_folder_can_run_and_reach_nothing(browser: Any, server: Served) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.set_default_timeout(SHORT)
    page.goto(server.address)
    page.get_by_role("link", name="Folders").click()
    picture = page.get_by_alt_text("dot.png")
    picture.scroll_into_view_if_needed()
    assert picture.evaluate("e => e.decode().then(() => e.naturalWidth)") == 1
    page.get_by_role("link", name="page.html").click()
    page.get_by_text("script ran, not fetched").wait_for()
    assert page.title() == "no cookies"
    assert page.evaluate("document.querySelector('img').naturalWidth") == 1
    context.close()
    assert not (server.settings.store / "jobs").exists()


def test_without_a_mouse(page: Any, server: Served) -> None:
    """From the top: the way past the menu, the menu, the form; what has the focus is seen."""
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    assert page.evaluate("document.activeElement.getBoundingClientRect().left") >= 0
    for _ in range(3):
        page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Compare"
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Compare two stores").wait_for()
    unnamed = """() => [...document.querySelectorAll('input:not([type=hidden]), select, textarea')]
        .filter(e => !e.labels.length).map(e => e.outerHTML)"""
    clickable = "() => [...document.querySelectorAll('[onclick], [role=button]:not(button)')].length"
    for path in ("/bugs", "/jobs", "/compare", "/folders"):
        page.goto(server.origin + path)
        assert page.evaluate(unnamed) == [] and page.evaluate(clickable) == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_narrow_and_dark(browser: Any, server: Served, scheme: str) -> None:
    context = browser.new_context(viewport={"width": 360, "height": 800}, color_scheme=scheme)
    page = context.new_page()
    page.goto(server.address)
    name = shown(page)[0]
    for path in ("/bugs", f"/bugs/{name}", "/jobs", "/compare", "/folders", "/nothing", "/jobs/7"):
        page.goto(server.origin + path)
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, path
        assert page.evaluate(WIDER) == [], path
        back = page.evaluate("getComputedStyle(document.body).backgroundColor")
        light = sum(map(int, re.findall(r"\d+", back)[:3])) > 384
        assert light == (scheme == "light"), (path, back)
    context.close()


def test_without_javascript_all_is_there_but_copying(browser: Any, server: Served) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(server.address)
    page.locator("select[name=kind]").select_option("crash")
    page.get_by_role("button", name="Show", exact=True).click()
    page.get_by_role("heading", name="1 bug of 63").wait_for()
    context.close()


def test_a_model_is_uploaded_watched_and_explained(page: Any, server: Served, tmp_path: Path) -> None:
    import onnx
    from onnx import TensorProto, helper

    one, two = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [one], [two])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(made, str(tmp_path / "relu.onnx"))
    (tmp_path / "large.onnx").write_bytes(b"x" * ((1 << 16) + 1))

    page.get_by_role("link", name="Jobs").click()
    page.locator("summary", has_text="Check:").click()
    form = page.locator("#check")
    form.get_by_label("Model").set_input_files(tmp_path / "large.onnx")
    assert (
        form.get_by_label("Model").evaluate("e => e.validationMessage") == "This file is larger than the server takes."
    )
    form.get_by_label("Model").set_input_files(tmp_path / "relu.onnx")
    form.get_by_label("Targets").fill("planted-wrong-shape")
    form.get_by_role("button", name="Start the check").click()
    page.get_by_role("heading", name="Check relu.onnx on planted-wrong-shape").wait_for()
    page.locator(".tag", has_text="running").wait_for()
    page.locator(".tag", has_text="done").wait_for(timeout=LONG)  # without a reload
    assert page.locator(".tag.bad", has_text="fail").is_visible()
    page.get_by_role("link", name=re.compile("^planted-wrong-shape-")).click()
    page.get_by_role("button", name="Explain").click()
    page.get_by_role("heading", name=re.compile("^Explain planted-wrong-shape-.* in 5 min")).wait_for()
    page.get_by_role("button", name="Stop").click()
    page.locator(".tag", has_text="stopped").wait_for(timeout=LONG)
    page.get_by_role("button", name="Remove from this list").click()
    page.get_by_role("heading", name="Jobs").wait_for()
    assert page.get_by_role("link", name=re.compile("^Explain ")).count() == 0
    page.get_by_role("link", name="Check relu.onnx").click()
    page.get_by_role("button", name="Start again as a new job").click()
    page.locator(".tag", has_text=re.compile("running|waiting")).wait_for()
    page.get_by_role("button", name="Stop").click()
    page.locator(".tag", has_text=re.compile("stopped|done")).wait_for(timeout=LONG)


def test_an_audit_is_started_and_stopped(page: Any) -> None:
    page.get_by_role("link", name="Jobs").click()
    page.locator("summary", has_text="Audit:").click()
    page.get_by_label("Only rules").fill("*softmax*")
    page.get_by_role("button", name="Start the audit").click()
    page.get_by_role("heading", name="Audit rules '*softmax*' of every compiler").wait_for()
    page.get_by_role("button", name="Stop").click()
    page.locator(".tag", has_text="stopped").wait_for(timeout=LONG)
    page.get_by_role("button", name="Resume").wait_for()


@pytest.mark.slow
def test_a_hunt_is_started_stopped_and_resumed(page: Any) -> None:
    page.get_by_role("link", name="Jobs").click()
    page.get_by_label("Targets").first.fill("eager")
    page.get_by_label("optests").uncheck()
    page.get_by_label("mutate").uncheck()
    page.get_by_label("Time").first.fill("20m")
    page.get_by_role("button", name="Start the hunt").click()
    page.get_by_role("heading", name="Hunt for 20 min on eager").wait_for()
    programs = page.locator("#live table tbody td.n").first

    def some() -> int:
        page.locator("#live table tbody td.n", has_text=re.compile("[1-9]")).first.wait_for(timeout=LONG)
        return int(programs.inner_text().replace(",", ""))

    before = some()
    page.get_by_role("button", name="Stop").click()
    page.get_by_text("Stopped. What was found is in the store.").wait_for(timeout=LONG)
    page.get_by_role("button", name="Resume").click()
    page.get_by_text("going on after").wait_for(timeout=LONG)
    assert some() >= before
    page.get_by_role("button", name="Stop").click()
    page.locator(".tag", has_text="stopped").wait_for(timeout=LONG)
