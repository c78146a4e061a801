"""Writes a case to files for a worker."""

from __future__ import annotations

from driftline.core.case import Case
from driftline.core.case_files import CaseFiles
from driftline.core.program import Program
from driftline.core.tensors import save_tensors
from driftline.execute.workspace import Workspace


def write_case(workspace: Workspace, case: Case, program: Program | None = None) -> CaseFiles:
    """Write the inputs of a case to a new folder and return the paths. `program`: used instead of the case's own."""
    folder, options = workspace.job_folder(), case.options
    paths = []
    for index, sample in enumerate(case.samples):
        paths.append(folder / f"input{index}")
        save_tensors(paths[-1], sample.arrays)
    return CaseFiles(program or case.program, tuple(paths), folder, options.grad, options.seed, options.plugins)
