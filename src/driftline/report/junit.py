"""Write the report as JUnit XML: a suite per compiler, a failing test case per bug, and counts as properties.

Known and fixed bugs are skipped test cases, so that a pipeline fails only for open bugs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from driftline.checking.result import Standing
from driftline.core.quoting import visible
from driftline.report.view import ACCEPTED, FIXED, FLAKY, KNOWN, REDUCED, BugView, ComparisonView, ReportView

if TYPE_CHECKING:
    from driftline.campaign.hunt.watching import WatchResult

_FORBIDDEN = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # characters that XML 1.0 forbids


def render(report: ReportView) -> str:
    suites: dict[str, list[BugView]] = {compiler: [] for compiler in report.matrix}
    for bug in report.bugs:
        suites.setdefault(bug.compiler, []).append(bug)
    root = ET.Element("testsuites", name="driftline")
    for compiler, bugs in suites.items():
        facts = {}
        lanes = report.statistics.lanes if report.statistics else ()
        for lane in lanes:
            if re.split("[:@]", lane.target)[0] == compiler.partition(":")[0]:
                facts[f"{lane.target}.programs"] = str(lane.programs)
                facts |= {f"{lane.target}.{verdict}": str(count) for verdict, count in lane.verdicts.items()}
        facts |= {f"version.{t}": v for t, v in report.environment.versions.items() if t.startswith(compiler)}
        _suite(root, compiler, ((bug, _why_skipped(bug)) for bug in bugs), report.made, facts)
    return _finish(root)


def render_comparison(comparison: ComparisonView) -> str:
    """Render a comparison: new bugs fail, the others are skipped with a reason."""
    cases = [(bug, "") for bug in comparison.new]
    cases += [(bug, "still there") for bug in comparison.still]
    cases += [(bug, comparison.notes.get(bug.id, "no longer seen")) for bug in comparison.fixed]
    root = ET.Element("testsuites", name="driftline")
    for compiler in sorted({bug.compiler for bug, _ in cases}):
        _suite(root, compiler, [case for case in cases if case[0].compiler == compiler], comparison.made, {})
    return _finish(root)


def render_watch(watched: WatchResult, made: str) -> str:
    """Render a watch: new and returned bugs fail, bugs that still fail are skipped, fixed bugs pass."""
    root = ET.Element("testsuites", name="driftline watch")
    for compiler, release in watched.releases.items():
        bugs = [one for one in watched.bugs if re.split("[:@]", one.target)[0] == compiler]
        failing, skipped = (
            [one for one in bugs if one.standing in those]
            for those in ((Standing.NEW, Standing.BACK), (Standing.STILL_FAILS, Standing.UNCLEAR))
        )
        suite = ET.SubElement(
            root, "testsuite", name=_clean(f"{compiler} {release}"), tests=str(len(bugs)), failures=str(len(failing)),
            errors="0", skipped=str(len(skipped)), timestamp=_clean(made.removesuffix("Z")), time="0",
        )  # fmt: skip
        for one in bugs:
            name = _clean(f"{one.bug.id}: {one.what}")
            case = ET.SubElement(suite, "testcase", classname=_clean(f"driftline.{compiler}"), name=name, time="0")
            if one in failing:
                ET.SubElement(case, "failure", type=str(one.standing), message=_clean(one.reason))
            elif one in skipped:
                ET.SubElement(case, "skipped", message=_clean(f"{one.standing}: {one.reason}"))
    return _finish(root)


def _why_skipped(bug: BugView) -> str:
    if bug.group == KNOWN:
        return "marked as known"
    if bug.group == ACCEPTED:
        return f"accepted: {bug.causes[0].title}"
    if bug.group == REDUCED:
        return f"less precise: {bug.reason}"
    return {FIXED: "fixed", FLAKY: f"flaky: failed in {bug.failed_runs[0]} of {bug.failed_runs[1]} runs"}.get(
        bug.group, ""
    )


def _suite(root: ET.Element, name: str, cases: Iterable[tuple[BugView, str]], made: str, facts: dict[str, str]) -> None:
    listed = list(cases)
    skipped = sum(bool(why) for _, why in listed)
    suite = ET.SubElement(
        root, "testsuite", name=_clean(name), tests=str(len(listed)), failures=str(len(listed) - skipped), errors="0",
        skipped=str(skipped), timestamp=_clean(made.removesuffix("Z")), time="0",
    )  # fmt: skip
    if facts:
        properties = ET.SubElement(suite, "properties")
        for key, value in facts.items():
            ET.SubElement(properties, "property", name=_clean(key), value=_clean(value))
    for bug, why in listed:
        seconds = f"{bug.durations.get('total', 0.0):.3f}"
        case = ET.SubElement(
            suite,
            "testcase",
            classname=_clean(f"driftline.{name}"),
            name=_clean(f"{bug.id}: {bug.title}"),
            time=seconds,
        )
        if why:
            ET.SubElement(case, "skipped", message=_clean(why))
        else:
            failure = ET.SubElement(case, "failure", type=_clean(bug.kind), message=_clean(bug.reason))
            failure.text = _clean(
                f"{bug.reason}\n\n{bug.replay}\n\n{bug.traceback or bug.failure}".strip() + f"\n\n{bug.script}"
            )
        if bug.log:
            ET.SubElement(case, "system-err").text = _clean(bug.log)


def _finish(root: ET.Element) -> str:
    for key in ("tests", "failures", "errors", "skipped"):
        root.set(key, str(sum(int(suite.get(key, "0")) for suite in root)))
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _clean(text: str) -> str:
    return _FORBIDDEN.sub("?", visible(text))
