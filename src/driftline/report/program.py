"""Format programs and their inputs for readers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from driftline.core.program import SCRIPT, Program, SourceBundle
from driftline.programs.onnx.file import load_structure

SHOWN = 6  # numbers of a long list
_LONG_LIST = re.compile(r"\{([-+\w.]+(?:, ?[-+\w.]+){16,})\}")


def program_text(program: Program) -> str:
    """Return the text of a program, or an empty string for binary forms."""
    if program.form == "source":
        return SourceBundle.load(program.path.read_bytes()).text
    if program.form == SCRIPT:
        return program.path.read_text(encoding="utf-8", errors="replace")
    if program.form == "onnx":
        import onnx  # a file format, not a compiler

        return _LONG_LIST.sub(_begun, onnx.printer.to_text(load_structure(program.path)))
    return ""


def _begun(numbers: re.Match[str]) -> str:
    """Shorten a list of numbers to its beginning and its length, since weights tell a reader nothing."""
    every = numbers[1].split(",")
    return f"{{{', '.join(number.strip() for number in every[:SHOWN])}, … {len(every):,} in all}}"


def reduced_text(body: Mapping[str, Any], part: str = "program") -> str:
    """Return the text and inputs of a reduced program. `part`: `program`, or `nearest` for the most similar passing
    program.
    """
    told = body.get(part) or {}
    onnx = body["program"]["form"] == "onnx"  # other programs bring their inputs themselves
    inputs = (body if part == "program" else told).get("inputs") or []
    return "\n".join([str(told.get("text") or "").rstrip(), *(input_lines(inputs) if onnx else ())])


def input_lines(inputs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return one line for each input: `x = [1.0, 2.0]  # float32`."""
    held = [given["values"] if given["values"] is not None else f"{given['shape']} (in the case)" for given in inputs]
    return [f"{given['name']} = {values}  # {given['dtype']}" for given, values in zip(inputs, held, strict=True)]
