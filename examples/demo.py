"""The demo: a result that is plainly wrong, then a hunt of about two minutes over the compilers that are installed
here, the clearest bug that it found, with its program and numbers, and a report of all. On a busy machine it takes
up to four minutes, until each compiler has judged enough.

Run by `make demo`. Everything it finds is real, confirmed in a fresh process, and can be run again.
"""

from __future__ import annotations

import sys
from pathlib import Path

from driftline.cli import command_names, run

REPORT = Path("driftline-report.html")
PROGRAMS = "20"  # judged on each compiler, at least
FINDINGS = 1  # the exit code of a hunt that found something


def main() -> int:
    print(
        "Driftline makes small programs, runs them on every deep-learning compiler installed here, and looks for\n"
        "wrong results. Rounding is no bug: an element is wrong when no legal order of operations explains it.\n"
        "First a program that is known to come out wrong, then a hunt of about two minutes. It ends with the clearest\n"
        "bug that it found: the program to run, the right number and the wrong one.",
        flush=True,
    )
    run(["tour", "--fast", "--steps", "find,judge"])
    code = run(
        ["hunt", "--budget", "2m", "--at-least", PROGRAMS, "--seed", "1", "--store", ".driftline", "--out", str(REPORT)]
    )
    print("Tour:    driftline tour (ten minutes with one bug, step by step; --fast takes one)")
    if "serve" in command_names():
        print("Page:    driftline serve (what was found, in a browser)")
    return 0 if code in (0, FINDINGS) else code


if __name__ == "__main__":
    sys.exit(main())
