"""Draw how many bugs hunts had found after how many programs: a flat curve means that more of the same finds little.

Lanes run in parallel and turns have no timestamps. Within a hunt, turns are ordered by the share of their lane that was
done, as if all lanes had ended at the same moment. Hunts follow each other by starting time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from markupsafe import Markup

from driftline.report.view import BugView, Statistics
from driftline.report.words import plural

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 520, 176, 36, 440, 10, 148
LETTERS = 12  # how high they are
Growth = tuple[tuple[int, tuple[str, ...]], ...]  # programs so far, and the bugs that were seen there first


class GrowthOf:
    """Builds the growth curve from the turns of hunts, added one hunt after another."""

    def __init__(self) -> None:
        self._programs = 0
        self._seen: set[str] = set()
        self._points: list[tuple[int, tuple[str, ...]]] = []
        self._ends: list[int] = []

    def add(self, turns: Iterable[tuple[str, int, int]], bugs: Mapping[tuple[str, int], Iterable[str]]) -> None:
        """Add a hunt. `turns`: lane, number and programs of each turn; `bugs`: the bugs found in each turn, by (lane,
        number).
        """
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
        self._ends.append(self._programs)

    def points(self) -> Growth:
        """Return the growth curve."""
        return tuple(self._points)

    def ends(self) -> tuple[int, ...]:
        """Return the total number of programs at the end of each hunt."""
        return tuple(self._ends)


def draw_growth(statistics: Statistics, bugs: Iterable[BugView]) -> Markup:
    """Draw the number of distinct bugs, and the number of distinct causes, where bugs of one known cause count once."""
    cause = {bug.id: bug.causes[0].id for bug in bugs if bug.causes}
    lines = {"own": _line(statistics.growth, {}), "fine": _line(statistics.growth, cause)}
    most = lines["own"][-1][1] if lines["own"] else 1

    def x(programs: int) -> float:
        return LEFT + programs / max(1, statistics.programs) * (RIGHT - LEFT)

    def y(count: int) -> float:
        return BOTTOM - count / most * (BOTTOM - TOP)

    parts = [f'<path class="axis" d="M{LEFT} {BOTTOM}H{RIGHT}"/>']
    for count in ticks(most):
        parts.append(f'<path class="grid" d="M{LEFT} {y(count):.1f}H{RIGHT}"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y(count) + 3:.1f}" text-anchor="end">{count:,}</text>')
    for programs in statistics.hunt_ends[:-1]:  # where another hunt begins
        parts.append(f'<path class="grid" stroke-dasharray="2 3" d="M{x(programs):.1f} {TOP}V{BOTTOM}"/>')
    for name, points in lines.items():
        steps = "".join(f"H{x(programs):.1f}V{y(count):.1f}" for programs, count in points)
        parts.append(f'<path class="{name}" d="M{LEFT} {BOTTOM}{steps}H{RIGHT}"/>')
    causes = lines["fine"][-1][1] if lines["fine"] else 0
    below = max(y(causes), y(most) + LETTERS)
    parts.append(f'<text x="{RIGHT + 6}" y="{y(most) + 3:.1f}">{plural(most, "bug")}</text>')
    parts.append(f'<text x="{RIGHT + 6}" y="{below + 3:.1f}">{plural(causes, "cause")}</text>')
    for programs in ticks(statistics.programs):
        if x(programs) < RIGHT - 70:  # otherwise the labels would overlap with the last one
            parts.append(f'<text x="{x(programs):.1f}" y="{BOTTOM + 16}" text-anchor="middle">{programs:,}</text>')
    parts.append(f'<text x="{LEFT}" y="{BOTTOM + 16}" text-anchor="middle">0</text>')
    parts.append(f'<text x="{RIGHT}" y="{BOTTOM + 16}" text-anchor="end">{statistics.programs:,} programs</text>')
    return Markup(
        f'<svg class="plot" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{plural(most, "distinct bug")} of'
        f' {plural(causes, "cause")} after {plural(statistics.programs, "program")}">{"".join(parts)}</svg>'
    )


def ticks(most: int) -> list[int]:
    """Two to five round numbers up to the most."""
    step = next(size * 10**power for power in range(18) for size in (1, 2, 5) if most < 6 * size * 10**power)
    return list(range(step, most + 1, step))


def _line(growth: Growth, names: Mapping[str, str]) -> list[tuple[int, int]]:
    """Return (programs, distinct bugs) at each step. Bugs that `names` maps to the same name count once."""
    seen: set[str] = set()
    line = []
    for programs, bugs in growth:
        seen.update(names.get(bug, bug) for bug in bugs)
        line.append((programs, len(seen)))
    return line
