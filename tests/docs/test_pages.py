"""Links lead somewhere, files that are named exist, and Python code is Python."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

import pytest
from documents import ROOT, SOURCE, anchors, blocks, inline_code, links, pages

OF_THE_REPOSITORY = re.compile(r"(src|docs|benchmarks|examples|tests)/[\w./*-]+")
ABOUT_THE_CODE = (
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "how-the-parts-work.md",
    "code-names.md",
)  # where paths are those of src/driftline, or end with them
PATH = re.compile(r"[\w*-]+(/[\w*-]+)*(/|\.(py|json|md|toml|txt))")


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page(page: Path) -> None:
    wrong = []
    for link in links(page):
        name, _, anchor = link.partition("#")
        there = (page.parent / name).resolve() if name else page
        if not there.exists():
            wrong.append(f"the link {link} leads nowhere")
        elif anchor and there.suffix == ".md" and anchor not in anchors(there):
            wrong.append(f"{there.name} has no heading for the link {link}")
    for code in inline_code(page):
        path = code.partition(":")[0]
        if OF_THE_REPOSITORY.fullmatch(path):
            if not list(ROOT.glob(path)) and not (page.parent / path).exists():
                wrong.append(f"`{code}` is not in the repository")
        elif page.name in ABOUT_THE_CODE and PATH.fullmatch(code) and not _in_the_source(code):
            wrong.append(f"`{code}` is not in the source")
    for block in blocks(page):
        try:
            if block.language == "python":
                ast.parse(block.text)
            elif block.language == "toml":
                tomllib.loads(block.text)
        except (SyntaxError, tomllib.TOMLDecodeError) as error:
            wrong.append(f"line {block.line}: {error}")
    assert not wrong, "\n".join(wrong)


def _in_the_source(path: str) -> bool:
    return bool(list(ROOT.glob(path)) or list(SOURCE.glob(f"**/{path}")))


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) < 120


def test_the_architecture_is_short() -> None:
    assert len((ROOT / "ARCHITECTURE.md").read_bytes()) <= 10 * 1024


def test_every_measurement_names_its_script() -> None:
    sections = re.split(r"^## ", (ROOT / "docs" / "measured.md").read_text(), flags=re.MULTILINE)[1:]
    assert len(sections) > 4
    for section in sections:
        assert re.search(r"`benchmarks/\w+\.py", section), section.partition("\n")[0]


def test_the_map_of_the_tests_names_every_folder() -> None:
    rows = [line for line in (ROOT / "tests" / "README.md").read_text().splitlines() if line.startswith("| `")]
    named = {name for row in rows for name in re.findall(r"`([\w.]+)`", row.split("|")[1])}
    tests = {path.relative_to(ROOT / "tests").parts[0] for path in (ROOT / "tests").rglob("test_*.py")}
    assert named == tests
