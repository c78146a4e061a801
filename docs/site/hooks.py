"""What MkDocs is told beyond mkdocs.yml: generated pages, files from outside docs/, and the links between all of them.

Pages are written for a reader of the repository: their links lead to files, as in an editor or on a forge. Here these
become links of the site; one to a file that is not on it, a source file say, becomes its text.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from commands import command_pages
from mkdocs.structure.files import File
from python_names import python_pages

ROOT = Path(__file__).resolve().parents[2]

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


def generated() -> dict[str, str]:
    """The pages that are not files of docs/, by their place on the site."""
    pages = {f"reference/commands/{name}.md": text for name, text in command_pages().items()}
    pages |= {f"reference/python/{name}.md": text for name, text in python_pages().items()}
    return pages | {place: (ROOT / source).read_text() for source, place in PROJECT.items()}


def on_config(config: Any) -> Any:
    """Put the generated pages into the navigation."""
    commands = [f"reference/commands/{name}.md" for name in command_pages()]
    names = [f"reference/python/{name}.md" for name in python_pages()]
    for section in config.nav:
        if "Reference" in section:
            section["Reference"] = [{"Commands": commands}, {"Python": names}, *section["Reference"]]
        if "Project" in section:
            section["Project"] = [*PROJECT.values(), *section["Project"]]
    return config


def on_files(files: Any, config: Any) -> Any:
    for place, text in generated().items():
        files.append(File.generated(config, place, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Links of the repository become links of the site; code blocks stay as they are."""
    sources = {place: source for source, place in PROJECT.items()}
    here = page.file.src_uri
    at_home = sources.get(here, f"docs/{here}")
    if here.startswith("reference/"):
        return markdown
    kept: list[str] = []
    text = _FENCE.sub(lambda block: f"\0{kept.append(block[0]) or len(kept) - 1}\0", markdown)
    text = re.sub(r"^  (?=- )", "    ", text, flags=re.MULTILINE)  # how deep MkDocs wants lists within lists
    text = _LINK.sub(lambda link: _moved(link, at_home, here, files), text)
    return re.sub("\0(\\d+)\0", lambda number: kept[int(number[1])], text)


def _moved(link: re.Match[str], at_home: str, here: str, files: Any) -> str:
    words, to = link.groups()
    name, mark, anchor = to.partition("#")
    if "://" in to or to.startswith("mailto:") or not name:
        return link[0]
    there = posixpath.normpath(posixpath.join(posixpath.dirname(at_home), name))
    place = PROJECT.get(there, there.removeprefix("docs/") if there.startswith("docs/") else "")
    if files.get_file_from_path(f"{place}/README.md"):
        place = f"{place}/README.md"
    if not place or not files.get_file_from_path(place):
        assert (ROOT / there).exists(), f"{here}: {to} leads nowhere"
        return words
    return f"[{words}]({posixpath.relpath(place, posixpath.dirname(here) or '.')}{mark}{anchor})"
