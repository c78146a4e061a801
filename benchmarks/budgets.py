"""Do the commands that explain a failure hold their `--budget`? Each is given too little time, and timed from outside.

    python benchmarks/budgets.py --budget 40
    python benchmarks/budgets.py --store STORE --bug BUG        # a bug that is known already

The failing program is RWKV on IREE, which takes longer to explain than the budget. Exits 1 when a command takes more
than 20 % longer than it was given.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

COMMANDS = ("localize", "reduce", "ablate", "diagnose")
ALLOWED = 1.2  # of the budget, the start of the process included


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budget", type=int, default=40, metavar="SECONDS")
    parser.add_argument("--store", type=Path, help="where the bug is; without one, RWKV is checked first")
    parser.add_argument("--bug", help="which of its bugs (default: the first)")
    arguments = parser.parse_args()
    late = 0
    with tempfile.TemporaryDirectory() as folder:
        store = arguments.store or Path(folder) / "store"
        if not arguments.store:
            _driftline("check", "model:rwkv", "--targets", "iree", "--store", str(store))
        bug = arguments.bug or _first_bug(store)
        for command in COMMANDS:
            started = time.monotonic()
            _driftline(command, bug, "--store", str(store), "--budget", f"{arguments.budget}s")
            taken = time.monotonic() - started
            late += taken > ALLOWED * arguments.budget
            print(f"{command:<9} {arguments.budget} s given, {taken:.1f} s taken", flush=True)
    return 1 if late else 0


def _first_bug(store: Path) -> str:
    listed = json.loads(_driftline("bugs", "list", "--store", str(store), "--json"))
    return str(listed["bugs"][0]["id"])


def _driftline(*words: str) -> str:
    """What a command prints; a budget that ends early is not an error of this script."""
    return subprocess.run([sys.executable, "-m", "driftline", *words], capture_output=True, text=True).stdout


if __name__ == "__main__":
    sys.exit(main())
