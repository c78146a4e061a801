"""The page in a real browser, without JavaScript."""

from __future__ import annotations

from typing import Any

import pytest

from driftline.report.formats import render
from driftline.report.view import ReportView

# The browser's own inspector may run scripts in a page that may not: the probes need it, the page does not.
WIDER = """() => [...document.querySelectorAll('*')].filter(
    e => !e.closest('.scroll, pre, svg') && e.getBoundingClientRect().right > innerWidth + 1
).map(e => e.tagName + '.' + e.className)"""


@pytest.fixture(scope="module")
def address(view: ReportView, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(render(view, "html"), encoding="utf-8")
    return path.as_uri()


@pytest.mark.parametrize("width", [1280, 390, 320])
def test_nothing_sticks_out(browser: Any, address: str, width: int) -> None:
    page = browser.new_page(viewport={"width": width, "height": 900}, java_script_enabled=False)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(address)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(WIDER) == []
    assert asked == [address]  # nothing else is loaded
    page.close()


def test_details_open_without_javascript(browser: Any, address: str) -> None:
    page = browser.new_page(java_script_enabled=False)
    page.goto(address)
    log = page.locator("details", has=page.locator("summary", has_text="Log")).first
    assert not log.locator("pre").is_visible()
    log.locator("summary").click()
    assert log.locator("pre").is_visible()
    assert "Segmentation fault" in log.locator("pre").inner_text()
    page.close()


def test_dark_mode_has_other_colours(browser: Any, address: str) -> None:
    seen = {}
    for scheme in ("light", "dark"):
        page = browser.new_page(color_scheme=scheme, java_script_enabled=False)
        page.goto(address)
        seen[scheme] = [
            page.evaluate(f"getComputedStyle(document.querySelector({selector!r})).{name}")
            for selector, name in (
                ("body", "backgroundColor"),
                ("body", "color"),
                (".bug", "backgroundColor"),
                (".plot .h5", "fill"),
            )
        ]
        page.close()
    assert all(light != dark for light, dark in zip(seen["light"], seen["dark"], strict=True)), seen
