"""Draws docs/pictures/check.svg, the picture of the README, from a real run: python docs/site/picture.py"""

from __future__ import annotations

import fcntl
import html
import io
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

ROOT = Path(__file__).resolve().parents[2]
PICTURE = ROOT / "docs" / "pictures" / "check.svg"
COMMAND = "driftline check zero.py:program --targets eager,inductor,onnxruntime"
COLUMNS = 120
CELL = 12.2  # the width of a character in the pictures of rich
_FONTS = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)  # the picture asks no other machine for anything
_ROW = re.compile(r'<text class="[\w-]+-r\d+" x="([\d.]+)" y="([\d.]+)"[^>]*>([^<]*)</text>')


def program() -> str:
    """Return zero.py as the README shows it."""
    (found,) = re.findall(r"```python\n(# zero\.py\n.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    return str(found)


def run_in_terminal(command: str, folder: Path) -> str:
    """Run a command with a terminal of COLUMNS columns as its output, and return the output with its colours."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, COLUMNS, 0, 0))
    environment = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "COLUMNS")}
    words = [sys.executable, "-m", *command.split()]
    running = subprocess.Popen(
        words, cwd=folder, stdout=theirs, stderr=subprocess.DEVNULL, env={**environment, "TERM": "xterm-256color"}
    )
    os.close(theirs)
    said = bytearray()
    with open(ours, "rb", buffering=0) as terminal:
        try:
            while part := terminal.read(4096):
                said += part
        except OSError:  # how Linux reports that the other end was closed
            pass
    running.wait()
    return said.decode().replace("\r\n", "\n")


def svg_of(command: str, output: str) -> str:
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, highlight=False)
    console.print(Text(f"$ {command}", style="bold"))
    console.print(Text.from_ansi(output.rstrip("\n")))
    svg = console.export_svg(title="driftline check", theme=MONOKAI, unique_id="check")
    return _FONTS.sub("", svg).replace("Fira Code, monospace", "monospace").replace("Fira Code", "monospace")


def lines_of(svg: str) -> list[str]:
    """Return the lines of text in a picture that `svg_of` made."""
    rows: dict[float, list[tuple[float, str]]] = {}
    for x, y, text in _ROW.findall(svg):
        rows.setdefault(float(y), []).append((float(x), html.unescape(text).replace("\xa0", " ")))
    lines = []
    for _, row in sorted(rows.items()):
        line = ""
        for x, text in sorted(row):
            line = line.ljust(round(x / CELL)) + text
        lines.append(line.rstrip())
    return lines


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "zero.py").write_text(program())
        PICTURE.write_text(svg_of(COMMAND, run_in_terminal(COMMAND, Path(folder))))
