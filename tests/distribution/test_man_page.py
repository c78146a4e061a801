"""The man page tells of every command and option, is sound roff, and needs click and numpy alone to be made."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

from driftline.cli import cli
from driftline.cli.man_page import man_page
from driftline.cli.tree import command_tree

WRITE = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in set(sys.argv[1:]):
            raise ImportError(f"the build has no {name}")

sys.meta_path.insert(0, Blocked())
from driftline.cli.man_page import man_page
sys.stdout.write(man_page())
"""
NOT_IN_A_BUILD = ("rich", "psutil", "ml_dtypes", "jinja2", "pygments", "torch", "onnx")


def test_every_command_and_option_is_told() -> None:
    page = man_page()
    nodes = list(command_tree(cli))
    assert len(nodes) > 40
    for node in nodes[1:]:
        assert f".SS {node.name}\n".replace("-", r"\-") in page
        for option, _ in node.options:
            assert f"\\fB{option}\\fR".replace("-", r"\-") in page.replace(r"\e", "\\")
    assert page.startswith(".TH DRIFTLINE 1") and "Exit codes: 0 clean" in page


def test_it_is_made_where_only_click_and_numpy_are_installed() -> None:
    """As when a wheel is built. Both pages come from new processes: here, other tests may have registered backends."""
    pages = []
    for missing in (NOT_IN_A_BUILD, ()):
        done = subprocess.run([sys.executable, "-c", WRITE, *missing], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        pages.append(done.stdout)
    assert pages[0] == pages[1] and pages[0].startswith(".TH DRIFTLINE 1")


@pytest.mark.skipif(not shutil.which("groff"), reason="groff is not installed")
def test_groff_has_nothing_to_object_to() -> None:
    done = subprocess.run(
        ["groff", "-man", "-Tutf8", "-ww", "-P-cbou"], input=man_page(), capture_output=True, text=True, check=True
    )
    assert not done.stderr
    assert "driftline check [OPTIONS] PROGRAM" in done.stdout
    assert "  driftline hunt --budget 2m   " in done.stdout  # lines that are meant to stay do
