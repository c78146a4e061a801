"""Bugs of older stores under the names that they have now. Their old names go on finding them (`aliases`).

Older releases named a bug by a table of causes and by sentences. What a bug is now follows from its findings; findings
that a table had put under one name may turn out to be several bugs.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from driftline.core.evidence import Evidence
from driftline.core.identity import AFTER_ANOTHER_CALL, WITH_GRADIENT, fingerprint_of, kind_of
from driftline.core.program import Program
from driftline.core.verdict import Fingerprint, Judgement, Kind, Verdict
from driftline.programs.operators import operators_of
from driftline.store.older_evidence import evidence_of_older


def newer_verdict(text: str, execution: str) -> str:
    """A stored verdict with its evidence as a record."""
    verdict, ran = json.loads(text), json.loads(execution)
    told = dict(verdict.get("evidence") or {})
    if ran.get("failure") and not told.get("failure"):
        told["failure"] = ran["failure"]
    evidence = evidence_of_older(str(verdict.get("kind") or ""), told, str(ran.get("stage") or ""))
    return json.dumps({**verdict, "evidence": evidence.to_json()})


def newer_body(text: str) -> str:
    """What was found out about a bug, with the evidence of every verdict in it as a record."""
    return json.dumps(_newer(json.loads(text)))


def _newer(value: Any) -> Any:
    if isinstance(value, list):
        return [_newer(item) for item in value]
    if not isinstance(value, dict):
        return value
    value = {key: _newer(item) for key, item in value.items()}
    if isinstance(value.get("evidence"), dict) and "kind" in value:
        value["evidence"] = evidence_of_older(str(value["kind"] or ""), value["evidence"]).to_json()
    return value


def rename_bugs(database: sqlite3.Connection, objects: Path, step: Callable[[], None] = lambda: None) -> None:
    """Give every bug the name that follows from its findings; `step` is called for each of these."""
    old = database.execute("SELECT id, status, summary, first_seen, last_seen FROM bugs").fetchall()
    for bug, status, summary, first_seen, last_seen in old:
        names = []
        findings = database.execute(
            "SELECT id, case_id, target, verdict, execution FROM findings WHERE bug = ?", (bug,)
        )
        for number, case_id, target, verdict, execution in findings.fetchall():
            step()
            (body,) = database.execute("SELECT body FROM cases WHERE id = ?", (case_id,)).fetchone()
            found = _fingerprint(json.loads(body), target, json.loads(verdict), json.loads(execution), objects)
            names.append(found.bug_id)
            database.execute(
                "INSERT INTO bugs VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING",
                (found.bug_id, json.dumps(found.to_json()), status, summary, first_seen, last_seen),
            )
            database.execute("UPDATE OR REPLACE findings SET bug = ? WHERE id = ?", (found.bug_id, number))
        if not names or bug in names:
            continue
        database.execute("INSERT OR REPLACE INTO aliases VALUES (?, ?)", (bug, names[0]))
        for table in ("suspects", "reductions", "diagnoses"):
            database.execute(f"UPDATE OR REPLACE {table} SET bug = ? WHERE bug = ?", (names[0], bug))
        database.execute("DELETE FROM bugs WHERE id = ?", (bug,))


def _fingerprint(
    body: dict[str, Any], target: str, verdict: dict[str, Any], execution: dict[str, Any], objects: Path
) -> Fingerprint:
    told = (body.get("deployed") or body)["program"]
    digest = told["digest"]
    program = _described(Program.from_json(told, objects / digest[:2] / digest[2:]))
    judged = Verdict(
        Judgement(verdict["verdict"]), "", Kind(verdict["kind"]), Evidence.from_json(verdict.get("evidence") or {})
    )
    blame, stage = str(verdict.get("blame") or ""), str(execution["stage"])
    converter = str(execution.get("converter") or "") if stage == "CONVERT" else ""
    return fingerprint_of(
        program,
        operators_of(program),
        backend=blame or converter or target.partition(":")[0].partition("@")[0],
        stage="CONVERT" if blame else stage,
        kind=kind_of(judged),
        found=judged.evidence,
    )


def _described(program: Program) -> Program:
    """Older hunts kept the pattern of a program in the place of its operators."""
    endings = tuple(end for end in (AFTER_ANOTHER_CALL, WITH_GRADIENT) if any(end in o for o in program.operators))
    if len(program.operators) == 1 and "(" in program.operators[0]:
        return replace(program, pattern=program.operators[0], circumstances=endings)
    return program
