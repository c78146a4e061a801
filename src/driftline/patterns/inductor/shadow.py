"""Find the rule that takes another rule's place, by forbidding other rules one at a time."""

from __future__ import annotations

from collections.abc import Mapping

from driftline.backends.inductor_rules.registry import find
from driftline.patterns.inductor.pipeline import run_passes


def shadowed_by(rule: str, text: str, needs: Mapping[str, str], training: bool) -> str:
    """Return the id and name of the rule without which this one fires on the program; an empty string if there is
    none."""

    def fires_without(forbidden: set[str]) -> bool:
        passed = run_passes(text, needs, training=training, forbidden=frozenset(forbidden), run=training)
        return rule in passed.fired

    group = find(rule).rule.group
    fired = run_passes(text, needs, training=training, run=training).fired - {rule}
    others = sorted(fired, key=lambda other: (find(other).rule.group != group, other))  # its neighbours first
    guilty = next((other for other in others if fires_without({other})), None)
    if guilty is None:
        return ""
    named = find(guilty).rule
    return f"{named.id} ({named.name.rpartition('.')[2]})"
