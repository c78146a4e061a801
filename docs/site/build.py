"""Builds the documentation as a site: python docs/site/build.py [--out FOLDER]

Pages are written for a reader of the repository: their links lead to files, as in an editor or on a forge. This script
writes all pages into build/site-pages: those of docs/, the generated reference, and the files from outside docs/. There
a link to a page of the site leads to that page, and a link to any other file becomes plain text. Zensical then makes
HTML of that folder, with the settings of mkdocs.yml, and refuses links and anchors that lead nowhere.
"""

from __future__ import annotations

import argparse
import posixpath
import re
import shutil
import subprocess
import sys
from collections.abc import Set
from pathlib import Path
from typing import Any

import yaml
from commands import command_pages
from python_names import python_pages

ROOT = Path(__file__).resolve().parents[2]
PAGES = ROOT / "build" / "site-pages"

# Files from outside docs/, and where they are on the site.
PROJECT = {
    "README.md": "project/overview.md",
    "ARCHITECTURE.md": "project/architecture.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "SECURITY.md": "project/security-policy.md",
    "CHANGELOG.md": "project/changelog.md",
    "examples/README.md": "project/examples.md",
}
_LINK = re.compile(r"\[([^\]]*)\]\(([^)\s]+)\)")
_FENCE = re.compile(r"^( *)```.*?^ *```", re.DOTALL | re.MULTILINE)


def main() -> int:
    parser = argparse.ArgumentParser(description="Build the documentation as a site.")
    parser.add_argument("--out", type=Path, default=ROOT / "site", help="the folder for the site")
    out = parser.parse_args().out.resolve()
    config = write_pages(PAGES)
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--clean", "--config-file", str(config)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        said = done.stdout + done.stderr
        broken_links = "Aborted because --strict flag is set" in said  # Zensical ends with a traceback here, too
        print(said.partition("Traceback (")[0] if broken_links else said, file=sys.stderr)
        return 1
    shutil.rmtree(out, ignore_errors=True)
    shutil.move(PAGES / "site", out)  # Zensical writes below the folder of its configuration alone
    print(f"{out / 'index.html'} is the first page.")
    return 0


def write_pages(folder: Path) -> Path:
    """Write every page of the site below `folder`, and return the configuration for them."""
    shutil.rmtree(folder, ignore_errors=True)
    docs = folder / "docs"
    shutil.copytree(ROOT / "docs", docs, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    for place, text in generated().items():
        (docs / place).parent.mkdir(parents=True, exist_ok=True)
        (docs / place).write_text(text)
    places = {path.relative_to(docs).as_posix() for path in docs.rglob("*") if path.is_file()}
    for place in places:
        if place.endswith(".md") and not place.startswith("reference/"):
            (docs / place).write_text(page_of_site((docs / place).read_text(), place, places))
    config = folder / "mkdocs.yml"
    config.write_text(configuration())
    return config


def generated() -> dict[str, str]:
    """The pages that are not files of docs/, by their place on the site."""
    pages = {f"reference/commands/{name}.md": text for name, text in command_pages().items()}
    pages |= {f"reference/python/{name}.md": text for name, text in python_pages().items()}
    return pages | {place: (ROOT / source).read_text() for source, place in PROJECT.items()}


def configuration() -> str:
    """The text of mkdocs.yml with the generated pages in its navigation."""
    settings, _, nav = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")
    sections: list[dict[str, Any]] = yaml.safe_load(nav)
    commands = [f"reference/commands/{name}.md" for name in command_pages()]
    names = [f"reference/python/{name}.md" for name in python_pages()]
    for section in sections:
        if "Reference" in section:
            section["Reference"] = [{"Commands": commands}, {"Python": names}, *section["Reference"]]
        if "Project" in section:
            section["Project"] = [*PROJECT.values(), *section["Project"]]
    return f"{settings}\n{yaml.safe_dump({'nav': sections}, sort_keys=False)}"


def page_of_site(markdown: str, here: str, places: Set[str]) -> str:
    """Turn the links of a page, which lead to files of the repository, into links of the site; leave code as it is."""
    sources = {place: source for source, place in PROJECT.items()}
    at_home = sources.get(here, f"docs/{here}")
    kept: list[str] = []
    text = _FENCE.sub(lambda block: f"\0{kept.append(block[0]) or len(kept) - 1}\0", markdown)
    text = re.sub(r"^  (?=- )", "    ", text, flags=re.MULTILINE)  # the depth that Python-Markdown wants
    text = _LINK.sub(lambda link: _moved(link, at_home, here, places), text)
    return re.sub("\0(\\d+)\0", lambda number: kept[int(number[1])], text)


def _moved(link: re.Match[str], at_home: str, here: str, places: Set[str]) -> str:
    words, to = link.groups()
    name, mark, anchor = to.partition("#")
    if "://" in to or to.startswith("mailto:") or not name:
        return link[0]
    there = posixpath.normpath(posixpath.join(posixpath.dirname(at_home), name))
    place = PROJECT.get(there, there.removeprefix("docs/") if there.startswith("docs/") else "")
    if f"{place}/README.md" in places:
        place = f"{place}/README.md"
    if place not in places:
        assert (ROOT / there).exists(), f"{here}: {to} leads nowhere"
        return words
    return f"[{words}]({posixpath.relpath(place, posixpath.dirname(here) or '.')}{mark}{anchor})"


if __name__ == "__main__":
    sys.exit(main())
