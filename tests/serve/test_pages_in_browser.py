"""Every page and every button, in a real browser."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from filled_store import add_bug, fill
from serving import Serve, Served

from driftline.core.verdict import Kind
from driftline.serve import records
from driftline.store import Store
from driftline.testing import planted_plugin

SHORT, LONG = 60_000, 300_000  # milliseconds that a busy machine may take for a page, and for a job
WIDER = """() => [...document.querySelectorAll('*')].filter(
    e => !e.closest('.scroll, pre, svg, .skip, .hidden') && e.getBoundingClientRect().right > innerWidth + 1
).map(e => e.tagName + '.' + e.className)"""
COUNT_MESSAGES = """window.messages = 0;
window.EventSource = class extends EventSource {
    constructor(address) { super(address); this.addEventListener("message", () => { window.messages += 1; }); }
};"""
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
def window(browser: Any, server: Served) -> Iterator[Any]:
    """A window that has opened the printed address."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.grant_permissions(["clipboard-read", "clipboard-write"], origin=server.origin)
    window = context.new_page()
    window.add_init_script(COUNT_MESSAGES)
    window.set_default_timeout(SHORT)
    window.goto(server.address)
    yield window
    context.close()


@pytest.fixture
def page(window: Any) -> Iterator[Any]:
    """The same; what its console complains of fails the test."""
    complaints: list[str] = []
    window.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    window.on("pageerror", lambda error: complaints.append(str(error)))
    window.reload()
    yield window
    assert complaints == []


def field(place: Any, name: str) -> Any:
    """A control of a form, by the name under which the form sends it."""
    return place.locator(f"[name={name}]")


def form_of(page: Any, action: str) -> Any:
    """A form of the page, unfolded."""
    form = page.locator(f"form[action='{action}']")
    if not form.is_visible():
        page.locator("details", has=form).locator("summary").click()
    return form


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
    field(page, "compiler").select_option("onnxruntime")
    page.get_by_role("button", name="Show", exact=True).click()
    page.get_by_role("heading", name="4 bugs of 63").wait_for()
    assert all(name.startswith("onnxruntime-") for name in shown(page))
    field(page, "text").fill("log1p")
    field(page, "text").press("Enter")
    page.get_by_role("heading", name="1 bug of 63").wait_for()
    page.get_by_role("link", name="Show all").click()
    page.get_by_role("heading", name="63 bugs in").wait_for()
    page.get_by_title("1 bug: tvm, crash").click()
    page.get_by_role("heading", name="1 bug of 63").wait_for()
    field(page, "since").fill("2h")
    field(page, "order").select_option("newest")
    page.get_by_role("button", name="Show", exact=True).click()
    page.wait_for_url("**/bugs?*order=newest*")
    assert len(shown(page)) == 1
    field(page, "status").select_option("fixed")
    page.get_by_role("button", name="Show", exact=True).click()
    page.get_by_text("No bug is like that.").wait_for()


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
    page.evaluate(
        "() => { navigator.clipboard.writeText = () => Promise.reject(); }"
    )  # a browser that does not allow it
    folded.get_by_role("button", name="Copy").click()
    page.get_by_role("button", name="Selected: press Ctrl+C").wait_for()
    assert page.evaluate("getSelection().toString()").strip() == copied.strip()
    page.get_by_role("link", name="Bugs", exact=True).first.click()
    page.get_by_role("heading", name="63 bugs in").wait_for()


def test_comparing(page: Any) -> None:
    page.get_by_role("link", name="Compare").click()
    assert field(page, "with").locator("option").count() == 1
    field(page, "with").select_option(index=0)
    page.get_by_label("this store").check()
    assert field(page, "first").first.is_checked() is False
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
    field(page, "kind").select_option("crash")
    page.get_by_role("button", name="Show", exact=True).click()
    page.get_by_role("heading", name="1 bug of 63").wait_for()
    context.close()


def test_a_model_is_uploaded_watched_and_explained(
    page: Any, server: Served, tmp_path: Path, eventually: Callable[..., None]
) -> None:
    import onnx
    from onnx import TensorProto, helper

    one, two = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [one], [two])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(made, str(tmp_path / "relu.onnx"))
    (tmp_path / "large.onnx").write_bytes(b"x" * ((1 << 16) + 1))

    page.get_by_role("link", name="Jobs").click()
    form = form_of(page, "/jobs/new/check")
    model = field(form, "model")
    model.set_input_files(tmp_path / "large.onnx")
    assert model.evaluate("e => e.validationMessage") == "This file is larger than the server takes."
    model.set_input_files(tmp_path / "relu.onnx")
    field(form, "targets").fill("planted-wrong-shape")
    form.get_by_role("button", name="Start the check").click()
    page.get_by_role("heading", name="Check relu.onnx on planted-wrong-shape").wait_for()
    page.locator(".tag", has_text="running").wait_for()
    page.locator(".tag", has_text="done").wait_for(timeout=LONG)  # without a reload
    assert page.locator(".tag.bad", has_text="fail").is_visible()
    page.get_by_role("link", name=re.compile("^planted-wrong-shape-")).click()
    page.get_by_role("button", name="Explain").click()
    page.get_by_role("heading", name=re.compile("^Explain planted-wrong-shape-.* in 5 min")).wait_for()
    page.get_by_role("button", name="Stop").hover()
    page.mouse.down()
    seen = page.evaluate("messages")
    eventually(lambda: page.evaluate("messages") > seen)  # the stream has more to show while the button is held
    page.mouse.up()
    page.locator(".tag", has_text="stopped").wait_for(timeout=LONG)
    page.get_by_role("button", name="Remove from this list").click()
    page.get_by_role("heading", name="Jobs").wait_for()
    assert page.get_by_role("link", name=re.compile("^Explain ")).count() == 0
    page.get_by_role("link", name="Check relu.onnx").click()
    page.get_by_role("button", name="Start again as a new job").click()
    page.locator(".tag", has_text=re.compile("running|waiting")).wait_for()
    page.get_by_role("button", name="Stop").click()
    page.locator(".tag", has_text=re.compile("stopped|done")).wait_for(timeout=LONG)


PASTED = """
import torch


def made():
    return torch.relu, (torch.tensor([-1.0, 2.0]),)
"""


def command_of(page: Any) -> str:
    """What the page of a job says to type in a terminal."""
    return page.locator("code.command").inner_text()


def tab_to(page: Any, what: str) -> None:
    """Move the focus by the Tab key alone, until it is on an element for which this is true of `e`."""
    for _ in range(80):
        page.keyboard.press("Tab")
        if page.evaluate(f"(e => {what})(document.activeElement)"):
            return
    raise AssertionError(f"Tab does not lead to {what}")


def test_a_program_is_pasted_and_checked_by_keys_alone(page: Any, server: Served) -> None:
    def type_into(name: str, text: str) -> None:
        tab_to(page, f"e.name === '{name}' && e.form.action.endsWith('/check')")
        page.keyboard.press("Control+A")
        page.keyboard.type(text)

    page.goto(f"{server.origin}/jobs")
    tab_to(page, "e.tagName === 'SUMMARY' && e.textContent.startsWith('Check')")
    page.keyboard.press("Enter")
    type_into("text", PASTED)
    type_into("function", "made")
    type_into("targets", "planted-wrong-shape")
    type_into("inputs", "random")  # a list: letters choose
    type_into("samples", "2")
    type_into("jobs", "2")
    type_into("seed", "7")
    type_into("grad", "yes")
    type_into("calls", "2")
    tab_to(page, "e.textContent === 'Start the check'")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Check made() of a pasted program on planted-wrong-shape").wait_for()
    for words in ("program.py:made", "--inputs random", "--samples 2", "--jobs 2", "--seed 7", "--grad", "--calls 2"):
        assert words in command_of(page)
    tab_to(page, "e.textContent === 'Stop'")
    page.keyboard.press("Enter")
    page.locator(".tag", has_text=re.compile("stopped|done")).wait_for(timeout=LONG)
    tab_to(page, "e.textContent === 'Remove from this list'")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Jobs").wait_for()


def test_mistakes_are_explained_and_nothing_filled_in_is_lost(window: Any, server: Served) -> None:
    window.goto(f"{server.origin}/jobs")
    form = form_of(window, "/jobs/new/audit")
    field(form, "compilers").fill("onxruntime")
    before = records.numbers(server.settings.store)
    form.get_by_role("button", name="Start the audit").click()
    window.get_by_text("Did you mean 'onnxruntime'").wait_for()
    window.go_back()
    assert field(form_of(window, "/jobs/new/audit"), "compilers").input_value() == "onxruntime"
    assert records.numbers(server.settings.store) == before
    window.goto(f"{server.origin}/bugs/nothing-1234")
    window.get_by_role("link", name="All bugs").click()
    window.get_by_role("heading", name=re.compile(r"\d+ bugs in")).wait_for()


def test_jobs_wait_are_stopped_resumed_and_stopped_at_once(page: Any, server: Served) -> None:
    """The hunt takes both cores and is held still, so that the audit waits for it; every field arrives."""
    page.goto(f"{server.origin}/jobs")
    form = form_of(page, "/jobs/new/hunt")
    field(form, "targets").fill("eager")
    field(form, "budget").fill("20m")
    field(form, "jobs").fill("2")
    field(form, "seed").fill("7")
    for generator in field(form, "generators").all():
        generator.set_checked(generator.get_attribute("value") == "graph")
    field(form, "diagnose").check()
    form.get_by_role("button", name="Start the hunt").click()
    page.get_by_role("heading", name="Hunt for 20 min on eager").wait_for()
    for words in ("--budget 1200s", "--seed 7", "--jobs 2", "--targets eager", "--generators graph", "--diagnose"):
        assert words in command_of(page)
    hunt = page.url
    number = int(hunt.rpartition("/")[2])
    process = psutil.Process(records.load(records.folder_of(server.settings.store, number)).pid)
    process.suspend()  # it cannot hear that it is to stop

    page.get_by_role("link", name="Jobs", exact=True).first.click()
    form = form_of(page, "/jobs/new/audit")
    field(form, "compilers").fill("onnxruntime")
    field(form, "only").fill("*softmax*")
    form.get_by_role("button", name="Start the audit").click()
    page.get_by_role("heading", name="Audit rules '*softmax*' of onnxruntime for 30 min").wait_for()
    assert "--compilers onnxruntime" in command_of(page) and "--only '*softmax*'" in command_of(page)
    page.get_by_text("It waits for a core: other jobs use all 2.").wait_for()
    page.get_by_role("button", name="Stop").click()
    page.get_by_role("button", name="Resume").click()
    page.locator(".tag", has_text="waiting").wait_for()
    page.get_by_role("button", name="Stop").click()
    page.get_by_role("button", name="Remove from this list").click()

    page.goto(hunt)
    page.get_by_role("button", name="Stop").click()
    page.get_by_role("button", name="Stop now, without tidying up").click()
    page.locator(".tag", has_text="stopped").wait_for(timeout=LONG)
    assert not process.is_running()
    page.get_by_role("button", name="Remove from this list").click()
    page.get_by_role("heading", name="Jobs").wait_for()


def test_read_only_shows_everything_and_starts_nothing(browser: Any, serve: Serve, server: Served) -> None:
    shared = serve(server.settings.store, read_only=True)
    context = browser.new_context()
    page = context.new_page()
    page.set_default_timeout(LONG)  # the page of coverage reads the operators and rules of every compiler
    page.goto(shared.address)
    menu = page.get_by_role("navigation", name="Pages", exact=True).get_by_role("link")
    assert menu.all_inner_texts() == ["Bugs", "Compare", "Folders", "Coverage", "Report"]
    page.get_by_role("link", name=re.compile("^inductor-")).first.click()
    assert page.get_by_role("button", name="Explain").count() == 0
    sending = "document.querySelectorAll('form[method=post]').length"
    for name, heading in (("Compare", "Compare two stores"), ("Folders", "Folders"), ("Bugs", "bugs in")):
        menu.get_by_text(name, exact=True).click()
        page.get_by_role("heading", name=heading).wait_for()
        assert page.evaluate(sending) == 0
    for name, heading in (("Coverage", "What was exercised"), ("Report", "What was tested, and what was not")):
        page.goto(shared.address)
        page.get_by_role("link", name=name).click()
        page.get_by_role("heading", name=heading).first.wait_for()
        assert page.evaluate(sending) == 0
    context.close()


def test_an_empty_store_leads_to_the_first_hunt(browser: Any, serve: Serve, tmp_path: Path) -> None:
    with Store.create(tmp_path / "empty"):
        pass
    context = browser.new_context()
    page = context.new_page()
    page.goto(serve(tmp_path / "empty").address)
    page.get_by_role("link", name="Start a hunt").click()
    page.get_by_role("button", name="Start the hunt").wait_for()
    context.close()


@pytest.mark.slow
def test_a_hunt_is_started_stopped_and_resumed(page: Any) -> None:
    page.get_by_role("link", name="Jobs").click()
    form = form_of(page, "/jobs/new/hunt")
    field(form, "targets").fill("eager")
    form.get_by_label("optests").uncheck()
    form.get_by_label("mutate").uncheck()
    field(form, "budget").fill("20m")
    form.get_by_role("button", name="Start the hunt").click()
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
