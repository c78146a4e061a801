"""What the hunts of a store exercised, by compiler. Adding up the turns of 200,000 programs takes about a second.

A turn stores the judgements of its operators in each dtype (`TurnBody.coverage`), and which rewrite rules fired for the
first time in its lane (`TurnBody.keys`). Only these parts of a turn are decoded. A damaged turn is skipped and noted as
a gap.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

from driftline.core.errors import DriftlineError
from driftline.core.target import Target
from driftline.store.store import Store

RULE = "rule "  # how a key of a turn begins that names a rewrite rule


@dataclass
class Exercised:
    """The statistics of one compiler in all hunts, over all of its targets."""

    programs: int = 0
    seconds: float = 0.0
    pairs: dict[tuple[str, str], Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    rules: set[str] = field(default_factory=set)  # ids of rewrite rules that fired


def exercised(store: Store) -> dict[str, Exercised]:
    """Return, by compiler, the programs, the judgements of operators by dtype, and the rules that fired."""
    found: dict[str, Exercised] = defaultdict(Exercised)
    by_lane: dict[str, dict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    for lane, number, text in store.query("SELECT lane, number, body FROM turns"):
        what = f"Turn {number} of {lane}"
        body = store.sound_json(text, what)
        if body is None:
            continue
        try:
            one = found[Target.parse(lane).backend]
            _add(one, by_lane[lane], body)
        except (AttributeError, TypeError, DriftlineError) as error:
            store.note_gap(f"{what} in the store {store.path} is damaged ({error}); it is left out.")
    for lane, counts in by_lane.items():
        pairs = found[Target.parse(lane).backend].pairs
        for pair, counted in counts.items():
            operator, _, dtype = pair.rpartition(" ")
            pairs[operator, dtype].update(counted)
    return dict(found)


def _add(one: Exercised, counts: dict[str, Counter[str]], body: dict[str, Any]) -> None:
    one.programs += body.get("programs", 0)
    one.seconds += body.get("seconds", 0.0)
    one.rules.update(key.removeprefix(RULE) for key in body.get("keys", ()) if key.startswith(RULE))
    for pair, judged in body.get("coverage", {}).items():
        counted = counts[pair]
        for judgement, count in judged.items():
            counted[judgement] += count
