"""What oneDNN gets wrong, eager gets wrong as well: then a script compares with torch's own kernels."""

from __future__ import annotations

from pathlib import Path

import pytest

from driftline.campaign.explain.exporting import subject_of
from driftline.campaign.explain.failing import find_failing
from driftline.checking.checker import Checker
from driftline.cli import run
from driftline.report.export.script import export_script
from driftline.store import Store

# Stands for a kernel of that library, on machines where none is wrong.
PROGRAM = """
import torch


def model(x):
    return x * (3 if torch.backends.mkldnn.enabled else 2)


def program():
    return model, (torch.ones(3),)
"""


@pytest.mark.slow
def test_a_script_shows_what_eager_hides(
    tmp_path: Path, store_folder: Path, checker: Checker, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "p.py").write_text(PROGRAM)
    assert run(f"check {tmp_path}/p.py:program --targets eager,aot_eager --store {store_folder}".split()) == 1
    capsys.readouterr()
    with Store.open(store_folder) as store:
        exported = export_script(subject_of(store, checker, find_failing("eager", store, checker)))
    assert exported.valid, exported.reason
    assert "without_onednn(lambda:" in exported.text
