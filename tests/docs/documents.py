"""The documentation as data: pages, code blocks, inline code, links, headings, and the commands in them."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "driftline"
_SHELL = ("", "console", "sh", "bash")


@dataclass(frozen=True)
class Block:
    """A fenced code block. `line` is the line of its first line of content."""

    page: Path
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


@dataclass(frozen=True)
class Command:
    """A line that a reader would type, split as a shell does it, up to a redirection or a pipe."""

    where: str
    words: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.where} {shlex.join(self.words)}"


def pages() -> list[Path]:
    found = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")]
    return sorted(page for page in found if page.name != "CHANGELOG.md")  # which speaks of what was, too


def blocks(page: Path) -> list[Block]:
    found: list[Block] = []
    inside: tuple[int, str] | None = None
    lines = page.read_text().splitlines()
    for number, line in enumerate(lines):
        if not line.lstrip().startswith("```"):
            continue
        if inside is None:
            inside = (number + 1, line.strip().removeprefix("```"))
        else:
            first, language = inside
            found.append(Block(page, first + 1, language, "\n".join(lines[first:number]) + "\n"))
            inside = None
    assert inside is None, f"{page}: a code block is not closed"
    return found


def prose(page: Path) -> str:
    """The page without its code blocks."""
    return re.sub(r"^ *```.*?^ *```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)


def inline_code(page: Path) -> list[str]:
    return [" ".join(code.split()) for code in re.findall(r"`([^`]+)`", prose(page))]


def links(page: Path) -> list[str]:
    return [link for link in re.findall(r"\]\(([^)\s]+)\)", prose(page)) if "://" not in link]


def anchors(page: Path) -> set[str]:
    """The names that a page's headings have in links, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", prose(page), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def commands(program: str) -> list[Command]:
    """The lines of all shell blocks that begin with this program."""
    found = []
    for page in pages():
        for block in blocks(page):
            if block.language not in _SHELL:
                continue
            for offset, line in enumerate(block.text.splitlines()):
                text = line.strip().removeprefix("$ ")
                if text.split(" ", 1)[0] == program:
                    where = f"{page.relative_to(ROOT)}:{block.line + offset}"
                    found.append(Command(where, words_of(text)))
    return found


def words_of(line: str) -> tuple[str, ...]:
    words = shlex.split(line, comments=True)
    ends = [words.index(end) for end in (">", "|", "&&") if end in words]
    return tuple(words[: min(ends, default=len(words))])
