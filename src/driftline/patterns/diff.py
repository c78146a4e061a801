"""Compare the rules of two versions of one compiler. New and changed rules are worth an audit."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from driftline.checking.checker import Checker
from driftline.core.errors import DriftlineError
from driftline.core.rule import Rule
from driftline.execute.environments import require_environment
from driftline.execute.pool import WorkerStartError
from driftline.patterns.inductor_audit import list_rules


@dataclass(frozen=True)
class Listed:
    """The rules of one version of a compiler."""

    version: str
    rules: Sequence[Rule]


@dataclass(frozen=True)
class RulesDifference:
    """The difference from the old version to the new one. A rule counts as changed if a rule of the same pass and name
    replaced it: its pattern or its condition differs."""

    old: str
    new: str
    added: tuple[Rule, ...]
    removed: tuple[Rule, ...]
    changed: tuple[tuple[Rule, Rule], ...]
    kept: int

    def to_json(self) -> dict[str, Any]:
        return {
            "schema": 1,
            "old": self.old,
            "new": self.new,
            "added": [rule.to_json() for rule in self.added],
            "removed": [rule.to_json() for rule in self.removed],
            "changed": [{"old": old.to_json(), "new": new.to_json()} for old, new in self.changed],
            "kept": self.kept,
        }


def difference(old: Listed, new: Listed) -> RulesDifference:
    """Compare two lists of rules."""
    before = {rule.id: rule for rule in old.rules}
    after = {rule.id: rule for rule in new.rules}
    gone = [rule for id_, rule in before.items() if id_ not in after]
    come = [rule for id_, rule in after.items() if id_ not in before]
    changed: list[tuple[Rule, Rule]] = []
    for alike in (_same_name, _variant_of):
        for rule in list(come):
            twin = next((other for other in gone if other.group == rule.group and alike(other.name, rule.name)), None)
            if twin:
                gone.remove(twin)
                come.remove(rule)
                changed.append((twin, rule))
    kept = len(before.keys() & after.keys())
    return RulesDifference(old.version, new.version, tuple(come), tuple(gone), tuple(changed), kept)


def _same_name(old: str, new: str) -> bool:
    return old == new


def _variant_of(old: str, new: str) -> bool:
    """True if one name extends the other, since versions may lengthen the names of variants: pattern_1 becomes
    pattern_1_training, but not pattern_18."""
    return new.startswith(f"{old}_") or old.startswith(f"{new}_")


def listed_in(checker: Checker, other: str) -> Listed:
    """Return the rules of another torch: `torch==2.12.0` in an environment, a virtualenv or its python, or a saved
    list."""
    path = Path(other)
    if path.suffix == ".json":
        return _saved(path)
    if "==" in other:
        package, _, version = other.partition("==")
        return _of_python(checker, require_environment((package,), version).python, other)
    if path.is_dir():
        path = path / "bin" / "python"
    if not path.is_file():
        raise DriftlineError(
            f"{other}: this is no virtualenv, no python, no list saved by driftline patterns list --json, and no"
            " release such as torch==2.12.0 (made with driftline env add)."
        )
    return _of_python(checker, str(path), other)


def _of_python(checker: Checker, python: str, name: str) -> Listed:
    try:
        return Listed(*list_rules(checker, python))
    except WorkerStartError as error:
        raise DriftlineError(f"{name}: its torch has no rewrite rules that can be listed: {error}.") from error


def _saved(path: Path) -> Listed:
    try:
        value = json.loads(path.read_text())
        rules = [Rule.from_json(rule) for rule in value["rules"] if rule["compiler"] == "inductor"]
        return Listed(value["versions"]["inductor"], rules)
    except OSError as error:
        raise DriftlineError(f"{path} cannot be read: {error.strerror}.") from error
    except (ValueError, KeyError, TypeError) as error:
        raise DriftlineError(f"{path} is not a list saved by driftline patterns list --json.") from error
