"""Plain words for what was found: titles, severities, verdict lines."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from driftline.backends import BACKENDS
from driftline.core.evidence import Evidence
from driftline.core.sentences import describe
from driftline.core.text import plural as plural
from driftline.core.verdict import Verdict
from driftline.report.view import ACCEPTED, FLAKY, KNOWN, OPEN, REDUCED, BugCause, BugView, Likeness, Statistics


def reduced_reason(reason: str, found: Evidence) -> str:
    """Return the reason of a finding. If the result is only less precise, add what was measured and how to accept
    it.
    """
    measured = f" Otherwise: {found.otherwise}." if found.otherwise else ""
    accept = f" Accept it with {found.accept}." if found.accept else ""
    return f"{reason}.{measured}{accept}" if measured or accept else reason


def ended_words(ended: str) -> str:
    """Describe how a reduction ended; `1-minimal` is the word used in JSON."""
    return "no single step makes it smaller" if ended == "1-minimal" else ended


def program_words(name: str) -> str:
    """Return the name of a program as used in a sentence. Programs cut out of a generated program have no name."""
    return "a part of a generated program" if name.startswith("part:") else name


def origin_words(origin: str) -> str:
    """Describe where inputs come from. The inputs of a part are the values that the whole program computed there."""
    return "the values that the whole program had there" if origin == "part" else origin


def places(operators: Sequence[Mapping[str, Any]], of: int) -> str:
    """Return the positions of a suspect's operators, counted from 1: `operator 1 of 3`, `operators 2, 3 and 5 of 9`."""
    numbers = [str(operator["place"] + 1) for operator in operators]
    if len(numbers) == 1:
        return f"operator {numbers[0]} of {of}"
    return f"operators {', '.join(numbers[:-1])} and {numbers[-1]} of {of}"


_COLOURS = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")


def uncoloured(text: str) -> str:
    """Remove terminal colour codes from a log."""
    return _COLOURS.sub("", text)


def sentence(text: str) -> str:
    """Turn words into a sentence, with a capital letter and a full stop."""
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."


def duration(seconds: float) -> str:
    """Format a duration: `48 s`, `12 min`, `3 h 20 min`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02d} min"


def verdict_line(
    bugs: Sequence[BugView],
    statistics: Statistics | None,
    checked: tuple[int, int] = (0, 0),
    others: Sequence[str] = (),
) -> str:
    """Summarise what was tested and how many distinct bugs were found in which compilers. `checked`: how many programs
    single checks ran, and on how many targets. `others`: other work, such as "2 audits".
    """
    fresh = [bug for bug in bugs if bug.group == OPEN]
    per = Counter(bug.compiler for bug in fresh).most_common()
    where = ", ".join(f"{count} in {name}" for name, count in per)
    found = (
        f"{plural(len(fresh), 'distinct bug')} in {plural(len(per), 'compiler')}: {where}" if fresh else "no new bug"
    )
    aside = [
        f"{count} {words}"
        for group, words in (
            (REDUCED, "of less precision"),
            (KNOWN, "known already"),
            (ACCEPTED, "accepted"),
            (FLAKY, "flaky"),
        )
        if (count := sum(bug.group == group for bug in bugs))
    ]
    apart = f" ({', '.join(aside)}, counted apart)" if aside else ""
    if alike := sum(bug.like is not None for bug in fresh):
        found += f"; {alike} of them {'looks' if alike == 1 else 'look'} like another one"
    found += _debatable_among(fresh)
    done = [*others]
    if statistics:
        targets = plural(sum(lane.programs > 0 for lane in statistics.lanes), "target")
        done = [f"{plural(statistics.programs, 'program')} on {targets} in {duration(statistics.seconds)}", *others]
    elif any(checked):
        done = [f"{plural(checked[0], 'program')} checked on {plural(checked[1], 'target')}", *others]
    if done:
        tested = " and ".join(done)
    elif bugs:
        return f"Checks and audits found {found}{apart}."
    else:
        return "No hunt, audit or check of results is recorded in this store."
    return f"{tested}: {found}{apart}." if not fresh else f"{tested} showed {found}{apart}."


def _debatable_among(bugs: Sequence[BugView]) -> str:
    debatable = sum(bug.debatable for bug in bugs)
    return f"; {debatable} of them {'is' if debatable == 1 else 'are'} debatable" if debatable else ""


def cause(found: BugCause) -> str:
    """Describe a cause beside a bug: its title, where it was reported, why it is debatable."""
    parts = [f"{found.title} ({found.id})"]
    parts += [f"reported: {found.reported}"] if found.reported else []
    parts += [f"debatable: {found.debatable}"] if found.debatable else []
    return "; ".join(parts)


def likeness(like: Likeness) -> str:
    """Describe what a bug shares with a similar one, to follow the name of that bug."""
    return f"{like.kernel} of {like.dtype} goes wrong in both, so they may have one cause"


def compare_line(new: int, fixed: int, still: int) -> str:
    return f"{plural(new, 'new bug')}, {fixed:,} no longer seen, {still:,} still there."


def blamed(name: str, reference: str = "") -> str:
    """Say what is to blame if the compiler is not: a converter, another backend, or the file that is compared with a
    reference.
    """
    if name in BACKENDS:
        return f"{name} itself is wrong in the same way: it is a bug of {name}, not of the compiler."
    if reference:
        return f"{name} itself computes something else than {reference}: the compiler is not to blame."
    return f"The conversion by {name} is wrong already: the compiler is not to blame."


def reason_with(blame: str, verdict: Verdict, reference: str = "") -> str:
    """Return what is wrong, worded so that the compiler is not blamed if the deployed file is at fault."""
    if not blame or not reference or verdict.kind is None:
        return verdict.reason
    return describe(verdict.kind, verdict.evidence, moved_by="the file")
