"""Summarise how language models were used in hunts, by model and mode."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from driftline.report.view import ModelUse
from driftline.store.hunts import Hunt, HuntLog
from driftline.store.tries import RAN, ModelTry

HEAD = ("model", "mode", "answers", "tokens", "cost", "ran", "fired its rule", "rules", "bugs")


def model_use(log: HuntLog, hunts: Sequence[Hunt]) -> tuple[ModelUse, ...]:
    """Return the usage of each model and mode; empty if no model was asked."""
    tries: dict[tuple[str, str], list[ModelTry]] = {}
    bugs: dict[tuple[str, str], set[str]] = {}
    for hunt in hunts:
        for turn in log.turns(hunt):
            for one in turn.body.tries:
                tries.setdefault((one.model, one.mode), []).append(one)
        model = str((hunt.plan.get("llm") or {}).get("model", ""))
        for mode, found in log.bugs_by_mode(hunt).items():
            bugs.setdefault((model, mode), set()).update(found)
    return tuple(_row(*key, found, bugs.get(key, set())) for key, found in sorted(tries.items()))


def _row(model: str, mode: str, tries: Sequence[ModelTry], bugs: set[str]) -> ModelUse:
    return ModelUse(
        model=model,
        mode=mode,
        asked=sum(one.answers > 0 for one in tries),
        answers=sum(one.answers for one in tries),
        prompt_tokens=sum(one.prompt_tokens for one in tries),
        answer_tokens=sum(one.answer_tokens for one in tries),
        cost=round(sum(one.cost for one in tries), 6),
        estimated=any(one.estimated for one in tries),
        outcomes=dict(Counter(one.outcome for one in tries).most_common()),
        ran=sum(one.outcome == RAN for one in tries),
        copies=sum(one.copy and one.outcome == RAN for one in tries),
        fired=sum(one.fired for one in tries),
        rules=len({rule for one in tries for rule in one.rules}),
        bugs=len(bugs),
    )


def model_cells(use: ModelUse) -> tuple[str, ...]:
    """Format a row of the table under `HEAD`: counts, each with its rate per thousand tokens."""
    programs = bool(use.ran or use.fired or use.mode != "describe")

    def told(count: int, share: bool = False) -> str:
        if not programs:
            return ""
        part = f" ({100 * count / use.asked:.0f} %)" if share and use.asked else ""
        return f"{count:,}{part}, {use.per_thousand(count):.2f} per 1,000"

    return (
        use.model,
        use.mode,
        f"{use.answers:,}",
        f"{use.tokens:,}{' (estimated)' if use.estimated else ''}",
        f"{use.cost:.4f}" if use.cost else "",
        told(use.ran, share=True) + (f"; {use.copies:,} are copies on other sizes" if use.copies else ""),
        told(use.fired, share=True),
        told(use.rules),
        told(use.bugs),
    )


def wasted(uses: Sequence[ModelUse]) -> str:
    """Count the answers that gave no program, by reason, in one line."""
    counts: Counter[str] = Counter()
    for use in uses:
        counts.update({name: n for name, n in use.outcomes.items() if name not in (RAN, "described")})
    return ", ".join(f"{n:,} {name}" for name, n in counts.most_common())


def model_json(use: ModelUse) -> dict[str, Any]:
    """Return the usage of one model and mode as JSON."""
    return {
        **{name: value for name, value in vars(use).items() if name != "outcomes"},
        "tokens": use.tokens,
        "outcomes": dict(use.outcomes),
        "per_1000_tokens": {
            name: round(use.per_thousand(getattr(use, name)), 4) for name in ("ran", "fired", "rules", "bugs")
        },
    }
