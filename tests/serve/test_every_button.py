"""Nothing on the page can be pressed or filled in that no test in a real browser presses or fills in."""

from __future__ import annotations

import re
from pathlib import Path

import driftline.serve

PAGES = Path(driftline.serve.__file__).parent
TEMPLATES = "\n".join(path.read_text() for path in sorted((PAGES / "templates").glob("*.html")))
SCRIPT = (PAGES / "static" / "page.js").read_text()
IN_BROWSER = (Path(__file__).parent / "test_pages_in_browser.py").read_text()


def names_of_buttons() -> set[str]:
    """Of buttons that are written out, of those that the macro `button` makes, and of those that the script adds."""
    written = re.findall(r"<button[^>]*>([^<]*)</button>", TEMPLATES)
    assert written.count("{{ title }}") == 1, "a name that is put together cannot be found here"
    made = re.findall(r"\bbutton\(job\.number, \"\w+\", \"([^\"]+)\"", TEMPLATES)
    assert len(made) == TEMPLATES.count("{{ button(")
    added = re.findall(r"^ +button\.textContent = \"(\w+)\";$", SCRIPT, re.MULTILINE)
    assert SCRIPT.count('createElement("button")') == 1
    return {*written, *made, added[0]} - {"{{ title }}"}


def names_of_links() -> set[str]:
    return set(re.findall(r"<a [^>]*>([^<{]+)</a>", TEMPLATES))


def names_of_fields() -> set[str]:
    written = re.findall(
        r"<(?:input|select|textarea)\b[^>]*?\bname=\"(\w+)\"", re.sub(r"<input type=\"hidden\".*", "", TEMPLATES)
    )
    return {*written, *re.findall(r"\bchoice\(\"(\w+)\"", TEMPLATES)}


def test_every_button_is_pressed_in_a_browser() -> None:
    buttons = names_of_buttons()
    assert {"Show", "Explain", "Copy", "Stop", "Resume", "Stop now, without tidying up"} <= buttons
    pressed = set(re.findall(r"get_by_role\(\"button\", name=\"([^\"]+)\"(?:, exact=True)?\)\.click\(\)", IN_BROWSER))
    assert buttons - pressed == set()


def test_every_link_is_followed_in_a_browser() -> None:
    links = names_of_links()
    assert {"Next", "Previous", "Show all", "Download the script"} <= links
    followed = set(re.findall(r"get_by_role\(\"link\", name=\"([^\"]+)\".*\.click\(\)", IN_BROWSER))
    followed |= set(re.findall(r"\(\"(\w+)\", \"[^\"]+\"\)", IN_BROWSER))  # by its name and the heading it leads to
    assert links - followed - {"Skip to the content"} == set()
    assert '"Skip to the content"' in IN_BROWSER  # which is for keys alone


def test_every_field_is_filled_in_in_a_browser() -> None:
    fields = names_of_fields()
    assert {"text", "model", "generators", "compiler", "first"} <= fields
    filled = set(re.findall(r"(?:field\(\w+|type_into\(|e\.name ===)(?:, )?[\"' ]+(\w+)[\"']", IN_BROWSER))
    assert fields - filled == set()
