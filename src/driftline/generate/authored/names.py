"""The faults of a language model's program, under the names that reports count. Imports no framework."""

from __future__ import annotations

from driftline.generate.base import NoProgram

NOT_PYTHON = "not Python"
FORBIDDEN_IMPORT = "forbidden import"
FORBIDDEN_CALL = "forbidden call"
NO_MODEL = "no model"  # neither a factory nor anything that it could be made of
DOES_NOT_RUN = "does not run"  # in eager, on its own inputs
NO_TENSOR = "no tensor"  # is returned
RANDOM = "random"  # gives other numbers each time
ENDLESS = "endless"
MEMORY = "memory"
KILLED = "killed"  # its process
COPY = "copy"  # of an earlier program that did not run, or that runs on no other sizes
NO_OPERATORS = "no operators"  # a sketch that names none

REPAIRABLE = (NOT_PYTHON, FORBIDDEN_IMPORT, FORBIDDEN_CALL, NO_MODEL, DOES_NOT_RUN, NO_TENSOR)


class Unusable(NoProgram):
    """A program that cannot be used. `name` is its fault; `detail` is reported to the language model."""

    def __init__(self, name: str, detail: str) -> None:
        super().__init__(f"{name}: {detail}")
        self.name = name
        self.detail = detail
