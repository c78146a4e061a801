"""The site: every page is in its navigation, the reference has every command and public name, and it is built strictly,
opens from disk, and asks no other machine for anything."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from documents import ROOT

import driftline
from driftline.cli import cli
from driftline.cli.tree import command_tree

sys.path.insert(0, str(ROOT / "docs" / "site"))

from commands import command_pages
from python_names import PACKAGES, public_names, python_pages

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


def test_every_page_is_in_the_navigation() -> None:
    named = re.findall(r"^ +- (?:[\w ]+: )?([\w/-]+\.md)$|^  - \w+: (\w+\.md)$", _nav(), re.MULTILINE)
    listed = [first or second for first, second in named]
    there = [page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")]
    assert sorted(listed) == sorted(there)


def _nav() -> str:
    return (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]


def test_the_reference_has_every_command_and_option() -> None:
    text = "".join(command_pages().values())
    for node in command_tree(cli):
        assert re.search(rf"^#+ {re.escape(node.name)}$", text, re.MULTILINE), node.name
        for option, _ in node.options:
            assert f"`{option}`\n:   " in text, f"{node.name} {option}"


def test_the_reference_has_every_public_name_with_its_words() -> None:
    assert set(public_names("driftline")) == set(driftline._PUBLIC)
    pages = python_pages()
    for package in PACKAGES:
        entries = re.split(r"^## ", pages[package], flags=re.MULTILINE)[1:]
        assert {entry.partition("\n")[0] for entry in entries} == set(public_names(package))
        for entry in entries:
            words = re.sub(r"```.*?```", "", entry.partition("\n")[2], flags=re.DOTALL).strip()
            assert words, f"{package}: nothing is said about {entry.partition(chr(10))[0]}"
    assert "def check(" in pages["driftline"] and "### Workbench.hunt" in pages["driftline"]


@pytest.mark.slow
def test_it_is_built_strictly_and_works_from_disk(tmp_path: Path) -> None:
    site = tmp_path / "site"
    command = [sys.executable, str(ROOT / "docs" / "site" / "build.py"), "--out", str(site)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for page in site.rglob("*.html"):
        loaded = re.findall(
            r"<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)=\"?(https?://[^\">\s]+)", page.read_text()
        )
        assert not loaded, f"{page.name} loads {loaded}"
    if CHROMIUM:
        _search(site)


def _search(site: Path) -> None:
    from playwright.sync_api import sync_playwright

    asked: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for width, scheme in ((1280, "light"), (400, "dark")):
            page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
            page.on("request", lambda request: asked.append(request.url))
            page.goto(f"file://{site}/how-to/hunt.html")
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            assert page.evaluate("document.body.dataset.mdColorScheme") == {"light": "default", "dark": "slate"}[scheme]
        page.goto(f"file://{site}/index.html")
        page.set_viewport_size({"width": 1280, "height": 900})
        page.keyboard.press("Control+k")
        page.keyboard.type("bisect")
        found = page.get_by_text(re.compile(r"^\d+ results$"))
        found.wait_for(timeout=120_000)
        assert int(found.inner_text().split()[0]) > 2
        browser.close()
    assert all(url.startswith(("file:", "data:", "blob:")) for url in asked), asked
