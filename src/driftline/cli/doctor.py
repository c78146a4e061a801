"""`driftline doctor`."""

from __future__ import annotations

from pathlib import Path

import click

from driftline.cli.common import Ticker, json_option, plugin_option, print_json


@click.command()
@json_option
@plugin_option
@click.option("--fresh", is_flag=True, help="Import every compiler again, whatever is remembered.")
def doctor(as_json: bool, plugins: tuple[str, ...], fresh: bool) -> None:
    """Show every backend: available or not, version, devices, why not, and the command that installs it.

    Each compiler is really imported, in a process of its own; that takes a minute. The answer is remembered until a
    package is installed, upgraded or removed; --fresh looks again.
    """
    from driftline.backends import BACKENDS
    from driftline.checking.doctor import examine, keep_report, recall_report
    from driftline.core.plugins import load_plugins
    from driftline.execute.pool import Pool

    load_plugins(plugins)
    plugins = tuple(str(Path(plugin).resolve()) for plugin in plugins)  # workers have another working directory
    report = None if fresh else recall_report(plugins)
    if report is None:
        with Pool() as pool, Ticker("Looking for compilers", len(BACKENDS.names())) as ticker:
            report = examine(pool, plugins, ticker.started, ticker.finished)
        keep_report(report, plugins)
    if as_json:
        print_json(report.to_json())
        return
    from driftline.report.terminal import show_doctor

    show_doctor(report)
