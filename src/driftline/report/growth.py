"""How many bugs hunts had found after so many programs, as a curve: where it is flat, more of the same finds little.

Lanes work side by side and turns have no clock: within a hunt, turns are put in the order of the share of their lane
that was done, as if all lanes had ended at the same moment. Hunts come one after another, by when they were started.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from markupsafe import Markup

from driftline.report.view import BugView, Statistics

WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 440, 176, 36, 10, 148
Growth = tuple[tuple[int, tuple[str, ...]], ...]  # programs so far, and the bugs that were seen there first


class GrowthOf:
    """Collects the turns of hunts, one hunt after another."""

    def __init__(self) -> None:
        self._programs = 0
        self._seen: set[str] = set()
        self._points: list[tuple[int, tuple[str, ...]]] = []

    def add(self, turns: Iterable[tuple[str, int, int]], bugs: Mapping[tuple[str, int], Iterable[str]]) -> None:
        """A hunt: lane, number and programs of each turn, and the bugs that came of suspects of a turn."""
        done: Counter[str] = Counter()
        placed = []
        for lane, number, programs in turns:
            done[lane] += programs
            placed.append((done[lane], lane, number, programs))
        placed.sort(key=lambda turn: (turn[0] / (done[turn[1]] or 1), turn[1], turn[2]))
        for _, lane, number, programs in placed:
            self._programs += programs
            new = sorted(set(bugs.get((lane, number), ())) - self._seen)
            self._seen.update(new)
            if new:
                self._points.append((self._programs, tuple(new)))

    def points(self) -> Growth:
        return tuple(self._points)


def draw_growth(statistics: Statistics, bugs: Iterable[BugView]) -> Markup:
    """Distinct bugs, and distinct causes below them: bugs of one known cause count once."""
    cause = {bug.id: bug.causes[0].id for bug in bugs if bug.causes}
    lines = {"own": _line(statistics.growth, {}), "fine": _line(statistics.growth, cause)}
    most = lines["own"][-1][1] if lines["own"] else 1

    def x(programs: int) -> float:
        return LEFT + programs / max(1, statistics.programs) * (WIDTH - LEFT - 8)

    def y(count: int) -> float:
        return BOTTOM - count / most * (BOTTOM - TOP)

    parts = [f'<path class="axis" d="M{LEFT} {BOTTOM}H{WIDTH - 8}"/>']
    for count in sorted({most, most // 2} - {0}):
        parts.append(f'<path class="grid" d="M{LEFT} {y(count):.1f}H{WIDTH - 8}"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y(count) + 3:.1f}" text-anchor="end">{count:,}</text>')
    for name, points in lines.items():
        steps = "".join(f"H{x(programs):.1f}V{y(count):.1f}" for programs, count in points)
        parts.append(f'<path class="{name}" d="M{LEFT} {BOTTOM}{steps}H{WIDTH - 8}"/>')
    parts.append(f'<text x="{LEFT}" y="{HEIGHT - 12}">0</text>')
    parts.append(f'<text x="{WIDTH - 8}" y="{HEIGHT - 12}" text-anchor="end">{statistics.programs:,} programs</text>')
    return Markup(
        f'<svg class="plot" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="Distinct bugs and causes over'
        f' programs">{"".join(parts)}</svg>'
    )


def _line(growth: Growth, names: Mapping[str, str]) -> list[tuple[int, int]]:
    """Programs and distinct bugs at each step, with bugs of one name as one."""
    seen: set[str] = set()
    line = []
    for programs, bugs in growth:
        seen.update(names.get(bug, bug) for bug in bugs)
        line.append((programs, len(seen)))
    return line
