"""The known bugs that show on what is installed: each one's script is short, runs by itself and shows it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from driftline.campaign.exporting import subject_of
from driftline.campaign.failing import find_failing
from driftline.checking.checker import Checker
from driftline.cli import run
from driftline.report.export.script import export_script
from driftline.store import Store

EXAMPLES = Path(__file__).parents[2] / "examples" / "bugs"
FAILING = [
    (entry["file"], check["target"])
    for entry in json.loads((EXAMPLES / "catalogue.json").read_text())
    for check in entry["checks"]
    if check["expect"] == "fail" and "@" not in check["target"]
]


@pytest.mark.slow
@pytest.mark.parametrize(("file", "target"), FAILING, ids=[file.removesuffix(".py") for file, _ in FAILING])
def test_the_script_of_a_known_bug_is_valid(file: str, target: str, checker: Checker, store_folder: Path) -> None:
    command = ["check", f"{EXAMPLES / file}:program", "--targets", target, "--store", str(store_folder)]
    assert run(command) == 1
    with Store.open(store_folder) as store:
        (bug,) = store.bugs()
        script = export_script(subject_of(store, checker, find_failing(bug.id, store, checker)))
    assert script.valid, f"{script.reason}\n{script.text}"
    assert script.lines <= 36
    assert str(EXAMPLES) not in script.text
