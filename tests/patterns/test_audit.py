"""`driftline patterns` as a user types it: a wrong rule is found, named, kept and replayed; nothing is lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from driftline.cli import run
from driftline.store import Store
from driftline.store.audits import AuditLog

RULE = "_sfdp_pattern_1_inference"  # attention: it does not look at the dimension of the softmax


def test_an_audit_finds_a_wrong_rule_and_names_it(store_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = f"patterns audit --compilers inductor --only {RULE} --budget 60s --json --store {store_folder}"
    assert run(command.split()) == 1
    answer = json.loads(capsys.readouterr().out)
    counts = {key: answer["rules"][key] for key in ("total", "built", "matched", "fired_alone", "fired")}
    assert counts == dict.fromkeys(counts, 1) and answer["rules"]["unreachable"] == {}
    found = next(bug for bug in answer["bugs"] if bug["mutation"] == "argument dim of softmax")
    assert found["rule"]["name"] == RULE and found["kind"] == "wrong-value" and found["reachable"]
    assert found["rule"]["id"] in found["guilty"] and "forbid=" in found["without"]
    assert len([line for line in found["script"].splitlines() if line.strip()]) <= 15

    with Store.open(store_folder) as store:
        bug = store.bug(found["id"])
        assert bug.findings[0].verdict["rule"]["name"] == RULE
    capsys.readouterr()
    assert run(["replay", found["id"], "--store", str(store_folder), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["answer"] == "still fails"
    report = store_folder.parent / "report.md"
    assert run(["report", "--store", str(store_folder), "--format", "md", "--out", str(report)]) in (0, 1)
    assert f"Rewrite rule `{RULE}`" in report.read_text()


@pytest.mark.slow
def test_killed_an_audit_goes_on_with_what_is_left(store_folder: Path) -> None:
    command = [sys.executable, "-m", "driftline", "patterns", "audit", "--compilers", "inductor", "--json"]
    command += ["--only", "_sfdp_pattern_[1-4]_inference", "--budget", "60s", "--store", str(store_folder)]
    first = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    deadline = time.monotonic() + 200
    while time.monotonic() < deadline:
        time.sleep(0.5)
        if (store_folder / "store.db").exists():
            with Store.open(store_folder) as store:
                if (entry := AuditLog(store).unfinished()) and AuditLog(store).kept(entry.id, "fired"):
                    break
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    with Store.open(store_folder) as store:
        fired = set(AuditLog(store).kept(1, "fired"))
    assert fired
    again = [*command[:5], "--resume", "--json", "--budget", "60s", "--store", str(store_folder)]
    ran = subprocess.run(again, capture_output=True, text=True, timeout=500)
    answer = json.loads(ran.stdout)
    assert answer["rules"]["fired"] == answer["rules"]["total"] >= 4
    with Store.open(store_folder) as store:
        assert AuditLog(store).unfinished() is None and fired <= set(AuditLog(store).kept(1, "fired"))


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("audit --compilers inductor --only _sfdp_patern_1", "Did you mean '_sfdp_pattern_1"),
        ("audit --compilers inductr", "Did you mean 'inductor'"),
        ("audit --budget 5x", "write a time with its unit"),
        ("audit --resume --only x", "leave out --only"),
        ("audit --resume", "no unfinished audit"),
        ("show pointless_cumsum", "Did you mean"),
        ("diff nowhere", "no virtualenv"),
    ],
)
def test_bad_input_is_one_sentence(
    command: str, words: str, store_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["patterns", *command.split()]
    if command.startswith("audit"):
        arguments += ["--store", str(store_folder)]
    assert run(arguments) == 2
    told = capsys.readouterr().err
    assert words in told and "Traceback" not in told
