"""Write requirements/hashed.txt: every package that `make install` installs here, with the SHA-256 of its file.

    python requirements/hashed.py        asks pip what it would install, and installs nothing
    make install HASHES=1                installs these files alone

The list is of this kind of machine and of the index that its pip uses: packages have other files for x86-64 and for
Arm, and builds of torch are local on some machines. Make the list on a machine that you trust, and keep it where
others cannot write. Standard library only.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
LIST = Path(__file__).with_name("hashed.txt")
WANTED = (
    "torch==2.13.0",
    f"{ROOT}[all,models,lab,docs,dev]",
    "hatchling",
    "editables",
)  # the last two build the package


def lines(report: dict[str, Any]) -> list[str]:
    """Return the lines of the list for a report of pip. A package without a hash ends the program."""
    found = []
    for entry in report["install"]:
        name, version = entry["metadata"]["name"], entry["metadata"]["version"]
        about = entry["download_info"]
        if "dir_info" in about:  # this project itself
            continue
        digest = about.get("archive_info", {}).get("hashes", {}).get("sha256")
        if not digest:
            raise SystemExit(f"pip knows no SHA-256 of {name} {version}: install it from an archive.")
        found.append(f"{name}=={version} --hash=sha256:{digest}")
    return sorted(found, key=str.lower)


def resolved() -> dict[str, Any]:
    """Return pip's report of what it would install into an empty environment."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--quiet"]
        command += ["--report", str(report), "-c", str(ROOT / "constraints.txt"), *WANTED]
        subprocess.run(command, check=True)
        found: dict[str, Any] = json.loads(report.read_text())
        return found


def main() -> None:
    found = lines(resolved())
    LIST.write_text("# Written by requirements/hashed.py for this kind of machine.\n" + "\n".join(found) + "\n")
    print(f"{LIST}: {len(found)} packages")


if __name__ == "__main__":
    main()
