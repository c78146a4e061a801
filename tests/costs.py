"""What tests cost: seconds of processor time of a test's process and of all that it started, which a busy machine
hardly changes. `--costs` prints the sum of each folder and the dearest tests; `make test` does.

A test of the fast suite that takes more than `BUDGET` is named: it belongs under `@pytest.mark.slow`, or can be made
cheaper. One that takes more than `MOST` fails the run.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

BUDGET = 20.0
MOST = 90.0  # far above the budget: a first test pays for what a module shares, and two processors share a cache
_SHORT = 0.1  # seconds: tests of less are counted together with the next one
_PROPERTY = "processor seconds"
_TICK = 1 / os.sysconf("SC_CLK_TCK")


def processor_seconds() -> float:
    """Return what this process and those below it have used, those included that have ended and were waited for."""
    used: dict[int, int] = {}
    parents: dict[int, int] = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            fields = (folder / "stat").read_bytes().rpartition(b")")[2].split()
        except OSError:  # it has just ended
            continue
        parents[int(folder.name)] = int(fields[1])
        used[int(folder.name)] = sum(map(int, fields[11:15]))
    own = os.getpid()
    return _TICK * sum(ticks for pid, ticks in used.items() if _is_below(pid, own, parents))


def _is_below(pid: int, top: int, parents: dict[int, int]) -> bool:
    while pid not in (top, 0):
        pid = parents.get(pid, 0)
    return pid == top


class CostMeter:
    """Adds to the report of each test what it took. Runs where the tests run."""

    def __init__(self) -> None:
        self._used, self._seen = processor_seconds(), time.monotonic()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
        report: pytest.TestReport = yield  # type: ignore[misc, assignment]
        if call.when == "teardown" and time.monotonic() - self._seen > _SHORT:
            used = processor_seconds()
            report.user_properties.append((_PROPERTY, max(used - self._used, 0.0)))
            self._used, self._seen = used, time.monotonic()
        return report  # type: ignore[return-value]


class CostReport:
    """Adds up what the tests took, and says so at the end. Runs in the process that collects the reports."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._costs: dict[str, float] = {}
        self._too_dear: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        cost = dict(report.user_properties).get(_PROPERTY) if report.when == "teardown" else None
        if isinstance(cost, float):
            self._costs[report.nodeid] = self._costs.get(report.nodeid, 0.0) + cost

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if "not slow" not in session.config.option.markexpr:
            return
        self._too_dear = [test for test, cost in self._costs.items() if cost > MOST]
        if self._too_dear and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        folders: Counter[str] = Counter()
        for test, cost in self._costs.items():
            folders[test.partition("::")[0].rpartition("/")[0]] += cost  # type: ignore[assignment]
        terminalreporter.section(f"{sum(folders.values()):.0f} seconds of processor time")
        for folder, cost in folders.most_common():
            terminalreporter.line(f"{cost:7.1f}  {folder}")
        for test, cost in sorted(self._costs.items(), key=lambda one: -one[1]):
            if cost > BUDGET:
                more = f"more than {MOST:g}: mark it slow" if test in self._too_dear else f"more than {BUDGET:g}"
                terminalreporter.line(f"{cost:7.1f}  {test}: {more}")
        if self._path:
            Path(self._path).write_text(json.dumps(self._costs, indent=1))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--costs", metavar="FILE", nargs="?", const="", help="say at the end what tests cost; FILE: of each test"
    )


def pytest_configure(config: pytest.Config) -> None:
    path = config.getoption("--costs")
    if path is None or not Path("/proc/self/stat").exists():
        return
    is_worker = hasattr(config, "workerinput")
    if is_worker or not config.getoption("numprocesses", None):
        config.pluginmanager.register(CostMeter())
    if not is_worker:
        config.pluginmanager.register(CostReport(path))
