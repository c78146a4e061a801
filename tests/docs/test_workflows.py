"""The examples for GitHub Actions are YAML that says what it seems to say, with commands that Driftline has."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from documents import ROOT
from test_commands import leaf, options_of

yaml = pytest.importorskip("yaml")

WORKFLOWS = sorted((ROOT / "examples" / "workflows").glob("*.yml"))
TOP = {"name", "on", "jobs", "env", "permissions", "concurrency", "defaults"}
JOB = {"runs-on", "needs", "steps", "strategy", "timeout-minutes", "env", "if", "name"}
STEP = {"uses", "with", "run", "name", "if", "env", "id"}


def loaded(path: Path) -> dict[str, Any]:
    held = yaml.safe_load(path.read_text())
    held["on"] = held.pop(True)  # YAML 1.1 reads the word `on` as a truth value
    return held


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_has_the_parts_of_one(path: Path) -> None:
    workflow = loaded(path)
    assert set(workflow) <= TOP and workflow["jobs"]
    assert all(re.fullmatch(r"(\S+ ){4}\S+", entry["cron"]) for entry in workflow["on"]["schedule"])
    for job in workflow["jobs"].values():
        assert set(job) <= JOB and job["runs-on"] and job["steps"]
        assert job.get("needs") is None or job["needs"] in workflow["jobs"]
        names = set((job.get("strategy") or {}).get("matrix") or {})
        for step in job["steps"]:
            assert set(step) <= STEP and ("uses" in step) != ("run" in step), step
            assert "uses" not in step or re.fullmatch(r"[\w./-]+@v\d+", step["uses"])
            for name in re.findall(r"matrix\.(\w+)", str(step)):
                assert name in names


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_its_commands_are_ours(path: Path) -> None:
    typed = [step["run"] for job in loaded(path)["jobs"].values() for step in job["steps"] if "run" in step]
    ours = [line for line in typed if line.startswith("driftline ")]
    assert ours
    for line in ours:
        words = re.sub(r"\$\{\{[^}]*\}\}", "1", line.partition("||")[0]).split()
        command, _, rest = leaf(tuple(words))
        given = {word for word in rest if word.startswith("--")}
        assert given <= options_of(command), line
