"""Build the checklist of an issue. Requirements that are met are ticked; the others are shown as open boxes.

The first list applies to every project; the second is what PyTorch requires of reports that a fuzzer found.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from driftline.core.quoting import Markdown, code, markdown, shell
from driftline.core.target import Target
from driftline.core.verdict import Kind
from driftline.report.export.script import Exported
from driftline.report.export.settings import in_their_words
from driftline.report.export.subject import Subject
from driftline.report.scripts.tolerance import tolerance

SHORT = 25  # lines of a script that count as minimal
_NUMBERS = (Kind.WRONG_VALUE, Kind.BIAS)
_CHOOSING = ("argmax", "argmin", "topk", "sort", "argsort", "max", "min", "unique", "TopK", "ArgMax", "ArgMin")


@dataclass(frozen=True)
class Point:
    """One requirement of a checklist: whether it is met, and its text."""

    met: bool
    text: str

    def __str__(self) -> str:
        return f"- [{'x' if self.met else ' '}] {markdown(self.text)}"


def common_points(subject: Subject, script: Exported) -> list[Point]:
    """Return the requirements that apply to every project."""
    points = [
        Point(script.valid, f"The script runs by itself ({script.reason})"),
        _minimal(subject, script),
        _blame(subject),
        _releases(subject),
        _duplicates(subject),
    ]
    failed, runs = subject.finding.verdict.get("failed_runs") or (0, 0)
    return [*points, Point(bool(runs) and failed == runs, f"It is not flaky: {failed} of {runs} runs failed")]


def fuzzer_points(subject: Subject, script: Exported) -> list[Point]:
    """Return the additional requirements of PyTorch for reports that a fuzzer found."""
    return [_tolerance(subject), _baseline(subject), _random_state(subject, script), _indices(subject)]


def written(points: Iterable[Point]) -> str:
    """Return the checklist as Markdown."""
    return "\n".join(str(point) for point in points)


def _command(name: str, subject: Subject) -> str:
    return shell(["driftline", name, subject.bug.id])


def _minimal(subject: Subject, script: Exported) -> Point:
    if subject.reduction:
        left = (subject.reduction.get("after") or {}).get("operators")
        size = f"{left} operator{'s' * (left != 1)}" if left else "reduced by Driftline"
        ended = str(subject.reduction.get("ended") or "")
        proof = "no single step makes it smaller" if ended == "1-minimal" else ended
        return Point(True, f"The program is minimal: {size}{f'; {proof}' if proof else ''}")
    if not script.text:  # then the program is all there is
        return Point(False, f"The program is minimal: not known ({_command('reduce', subject)} makes it smaller)")
    short = script.valid and script.lines <= SHORT
    smaller = "" if short else f"; {_command('reduce', subject)} makes it smaller"
    return Point(short, f"The program is minimal ({script.lines} lines{smaller})")


def _blame(subject: Subject) -> Point:
    if told := causes(subject):
        return Point(True, Markdown(f"Ablation: {'; '.join(told)}"))
    if without := subject.finding.verdict.get("without"):
        return Point(True, Markdown(f"Ablation: {code(str(without))} is right"))
    if subject.ablation:
        return Point(True, f"Ablation: {subject.ablation.get('note') or 'no option or pass makes it go away'}")
    return Point(False, f"Ablation: not done ({_command('ablate', subject)})")


def known_causes(subject: Subject) -> list[str]:
    """Return sentences about the causes that explain the bug, each with the address of its report."""
    return [
        f"Known cause: {_stop(cause.title)} (cause {cause.id} of Driftline"
        + (f", reported as {cause.reported})." if cause.reported else ", not reported yet as far as is known).")
        for cause in subject.causes
    ]


def _stop(title: str) -> str:
    return title.rstrip(".")


def causes(subject: Subject) -> list[str]:
    """Return sentences, without a full stop, that name the options or passes that make the bug disappear when
    disabled.
    """
    cures = (subject.ablation or {}).get("cures") or []
    return [
        f"{markdown(str(cure['sentence']).rstrip('.'))} ({in_their_words(Target.parse(cure['target']))})"
        for cure in cures[:3]
        if cure.get("confirmed", True)
    ]


def _releases(subject: Subject) -> Point:
    if found := subject.bisection:
        said = [trial for trial in found.get("trials", ()) if trial["answer"] != "skip"]
        more = "" if len(said) > 1 else f" ({_command('bisect', subject)} asks more)"
        return Point(len(said) > 1, f"Releases of {found['package']}: {found['summary']}{more}")
    return Point(False, f"Other releases: not tried ({_command('bisect', subject)})")


def _duplicates(subject: Subject) -> Point:
    reported = next((cause for cause in subject.causes if cause.reported), None)
    if reported:
        told = f"Its cause is reported already: {_stop(reported.title)} ({reported.reported}). Say there what is new"
        return Point(False, told)
    place = f" at {subject.tracker.url}" if subject.tracker.url else ""
    return Point(False, f"It is not reported yet: somebody has to search the open issues{place}")


def _tolerance(subject: Subject) -> Point:
    if subject.kind not in _NUMBERS:
        return Point(True, "Tolerances: none are needed, the difference is one of kind")
    allowed = tolerance(subject.failing())
    shown = f"rtol={allowed.rtol:g}, atol={allowed.atol:g}"
    met = allowed.is_default or allowed.rtol == allowed.atol == 0
    return Point(met, f"Tolerances: {shown}. {allowed.remark}")


def _baseline(subject: Subject) -> Point:
    evidence = subject.evidence
    if subject.kind not in _NUMBERS:
        return Point(True, "float64 baseline: not needed, no rounding is involved")
    first, error = evidence.first, evidence.error or 0.0
    if evidence.sigma and first:
        told = (
            f"float64 gives {first.expected}, the compiler {first.got}; rounding moves this element by"
            f" {evidence.sigma:.2g}, eager stands at {evidence.native_z or 0.0:.2g} times that,"
            f" the compiler at {error / evidence.sigma:.3g} times"
        )
        return Point(True, f"float64 baseline: {told}")
    if evidence.allowed is not None:
        told = f"off by {error:.3g} from float64, where rounding allows {evidence.allowed:.3g}"
        return Point(True, f"float64 baseline: {told}; eager is off by {evidence.native_error or 0.0:.3g}")
    if not subject.failing().dtype.startswith(("float", "bfloat", "complex")):
        return Point(True, "float64 baseline: not needed, the output is exact")
    return Point(False, "float64 baseline: none was kept")


def _random_state(subject: Subject, script: Exported) -> Point:
    seeded = any(word in script.text for word in ("manual_seed", "set_seed", "random.seed", "default_rng("))
    if not seeded and not subject.draws:
        return Point(True, "Equal random state: no random numbers are drawn")
    return Point(seeded, "Equal random state: both runs use the same weights and inputs, made from one seed")


def _indices(subject: Subject) -> Point:
    choosing = sorted({name for name in subject.operators if name.rpartition(".")[2] in _CHOOSING})
    integers = not subject.failing().dtype.startswith(("float", "bfloat", "complex"))
    invalid = bool(subject.evidence.invalid_choice)
    if subject.kind == Kind.WRONG_VALUE and (invalid or (choosing and integers)):
        told = "the chosen elements themselves are wrong, not only their indices" if invalid else ""
        return Point(False, f"No comparison of indices of a maximum or minimum: {told or ', '.join(choosing)}")
    return Point(True, "No comparison of indices of a maximum or minimum")
