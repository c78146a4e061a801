"""Account for every program that failed in hunts: counts of each outcome, and the failures that are no bugs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from driftline.core.text import first_line, plural
from driftline.report.view import SuspectView
from driftline.store.hunts import Hunt, HuntLog, Suspect

# The outcome for each state of a suspect, in words for one program and for several.
_WORDS = {
    "bug": ("shows a bug", "show bugs"),
    "flaky": ("is flaky", "are flaky"),
    "accepted": ("is less precise, as accepted", "are less precise, as accepted"),
    "disputed": ("is disputed (the references disagree)", "are disputed (the references disagree)"),
    "gone": ("did not fail again alone", "did not fail again alone"),
    "unclear": ("could not be settled", "could not be settled"),
    "unexamined": ("was not examined, for lack of time", "were not examined, for lack of time"),
    "waiting": ("still waits to be examined", "still wait to be examined"),
}
LISTED = ("disputed", "unclear")  # each of these is listed: it may be a bug after all


def account(settled: Mapping[str, int]) -> str:
    """Summarise the outcomes of all failing programs: `3 programs failed: 2 show bugs, 1 is disputed (the references
    disagree).` Empty if none failed.
    """
    total = sum(settled.values())
    if not total:
        return ""
    states = [*_WORDS, *(state for state in settled if state not in _WORDS)]
    parts = [f"{count:,} {_words(state, count)}" for state in states if (count := settled.get(state, 0))]
    return f"{plural(total, 'program')} failed: {', '.join(parts)}."


def _words(state: str, count: int) -> str:
    return _WORDS.get(state, (state, state))[count != 1]


def listed_suspects(log: HuntLog, hunts: Iterable[Hunt]) -> tuple[SuspectView, ...]:
    """Return the failures that no compiler is blamed for, with the reason."""
    return tuple(_view(suspect, state) for hunt in hunts for state in LISTED for suspect in log.in_state(hunt, state))


def _view(suspect: Suspect, state: str) -> SuspectView:
    request = suspect.body.request
    name = f"{request.get('arm') or 'a program'} ({request.get('generator') or 'unknown generator'})"
    return SuspectView(
        suspect.lane,
        name,
        suspect.body.kind,
        first_line(suspect.body.reason),
        state,
        first_line(suspect.body.settled) or "no reason was kept",
    )
