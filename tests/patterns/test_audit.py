"""`driftline patterns` as a user types it: a wrong rule is found, named, kept and replayed; nothing is lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from onnx_audits import audit

from driftline.backends import BACKENDS
from driftline.checking.checker import Checker
from driftline.cli import run
from driftline.patterns.audit import Audit, AuditPlan
from driftline.patterns.found import Found
from driftline.patterns.onnxscript_rules import OnnxScriptRules
from driftline.store import Store
from driftline.store.audits import AuditLog

RULE = "_sfdp_pattern_1_inference"  # attention: it does not look at the dimension of the softmax


@pytest.mark.slow  # over a minute; in every run, test_one_by_one.py and test_workbench.py audit rules of ONNX compilers
def test_an_audit_finds_a_wrong_rule_and_names_it(store_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = f"patterns audit --compilers inductor --only {RULE} --budget 4m --json --store {store_folder}"
    assert run(command.split()) == 1
    answer = json.loads(capsys.readouterr().out)
    counts = {key: answer["rules"][key] for key in ("total", "built", "matched", "fired_alone", "fired")}
    assert counts == dict.fromkeys(counts, 1) and answer["rules"]["unreachable"] == {}
    found = next(bug for bug in answer["bugs"] if bug["mutation"] == "argument dim of softmax")
    assert found["rule"]["name"] == RULE and found["kind"] == "wrong-value" and found["reachable"]
    assert found["rule"]["id"] in found["guilty"] and "forbid=" in found["without"]
    assert len([line for line in found["script"].splitlines() if line.strip()]) <= 15

    assert run(["coverage", "--store", str(store_folder), "--json"]) == 0
    counted = json.loads(capsys.readouterr().out)["compilers"]["inductor"]
    assert counted["levels"]["pass"]["total"] > 100, "all rules are listed, not only those that were asked for"
    assert [rule["name"] for rule in counted["rules"] if rule["fired"]].count(RULE) == 1

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
    command += ["--only", "_sfdp_pattern_[1-3]_inference", "--budget", "120s", "--store", str(store_folder)]
    first = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    deadline = time.monotonic() + 200
    while time.monotonic() < deadline:
        time.sleep(0.5)
        if (store_folder / "store.db").exists():
            with Store.open(store_folder) as store:
                if _remembered(store, "fired"):
                    break
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    with Store.open(store_folder) as store:
        fired = _remembered(store, "fired").keys()
    assert fired
    again = [*command[:5], "--resume", "--json", "--budget", "200s", "--store", str(store_folder)]
    ran = subprocess.run(again, capture_output=True, text=True, timeout=500)
    assert ran.returncode in (0, 1), ran.stderr
    answer = json.loads(ran.stdout)
    assert answer["rules"]["fired"] >= 2 and answer["rules"]["total"] == 3
    with Store.open(store_folder) as store:
        assert AuditLog(store).unfinished() is None and fired <= _remembered(store, "fired").keys()


def _remembered(store: Store, step: str) -> dict[str, int]:
    """What the store's first audit has kept of a step, with the number of the row: writing it again gives a new one."""
    rows = store.query("SELECT rule, rowid FROM audit_rules WHERE audit = 1 AND step = ?", (step,))
    return dict(rows)


CLIPS = "common.successive_clip_rule"  # it breaks on every model of its kind that does not declare a type
needs_onnxscript = pytest.mark.skipif(
    not BACKENDS.get("onnxscript").installed().available, reason="onnxscript is not installed"
)


@needs_onnxscript
@pytest.mark.slow  # a minute; kills of hunts and reductions are in every run
def test_killed_it_asks_no_model_twice_and_forgets_no_bug(store_folder: Path, eventually: Callable[..., None]) -> None:
    command = [sys.executable, "-m", "driftline", "patterns", "audit", "--json", "--store", str(store_folder)]
    whole = [*command, "--compilers", "onnxscript", "--only", CLIPS, "--budget", "5m"]
    first = subprocess.Popen(whole, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)

    def got_somewhere() -> bool:
        if not (store_folder / "store.db").exists():
            return False
        with Store.open(store_folder) as store:
            return bool(_remembered(store, "bug") and _remembered(store, "asked of onnxscript"))

    eventually(got_somewhere, 120)
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    with Store.open(store_folder) as store:
        asked, bugs = _remembered(store, "asked of onnxscript"), _remembered(store, "bug")
        [(spent,)] = store.query("SELECT seconds FROM audits")
    short = subprocess.run([*command, "--resume", "--budget", "1s"], capture_output=True, text=True, timeout=60)
    assert short.returncode == 2 and "counts from the beginning" in short.stderr
    longer = [*command, "--resume", "--budget", f"{spent + 40:.0f}s"]
    ran = subprocess.run(longer, capture_output=True, text=True, timeout=200)
    assert ran.returncode == 1, ran.stderr
    answer = json.loads(ran.stdout)
    assert bugs.keys() <= {bug["id"] for bug in answer["bugs"]} and answer["seconds"] > spent > 0
    assert answer["rules"]["fired"] == 1
    with Store.open(store_folder) as store:
        after = _remembered(store, "asked of onnxscript")
        assert asked.items() < after.items(), "what was asked stays as it was written, and more was asked"
        assert AuditLog(store).unfinished() is None


@needs_onnxscript
def test_what_ordinary_code_cannot_write_is_remembered_too(checker: Checker, store_folder: Path) -> None:
    _, [suspect] = audit(checker, OnnxScriptRules(), ["clip_clip"], [CLIPS], rounds=0)
    plan = AuditPlan(("onnxscript",), only=CLIPS, seconds=1)
    with Store.create(store_folder) as store:
        found = Found(suspect.rule, "a private operator", *suspect.failure, reachable=False)
        Audit(checker, store, plan, listener=print).keep(found)
        assert not store.bugs()
        result = Audit(checker, store, plan, listener=print, going=AuditLog(store).unfinished()).run()
    [kept] = result.out_of_reach
    assert kept == found.told()


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
