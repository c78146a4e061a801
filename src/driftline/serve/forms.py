"""Turns the forms that a person fills in into orders for jobs. Each field is validated; a mistake is one sentence."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from starlette.datastructures import FormData, UploadFile

from driftline.campaign.check.session import require_target
from driftline.checking.aspects import MOST_CALLS
from driftline.core.errors import DriftlineError
from driftline.core.private import open_private
from driftline.core.quoting import identifier, is_identifier, one_line
from driftline.core.target import parse_targets
from driftline.core.text import did_you_mean
from driftline.core.times import parse_budget
from driftline.generate import usual_generators
from driftline.inputs.make import STRATEGIES
from driftline.serve.orders import AuditOrder, CheckOrder, DiagnosisOrder, HuntOrder, JobOrder
from driftline.serve.settings import ServeSettings

Filled = tuple[JobOrder, Callable[[Path], None]]  # the order, and a function that writes its program to a folder
LONGEST = 24 * 3600.0  # seconds of a budget
MOST_SEED = 2**31 - 1
_GRADIENTS = {"yes": True, "no": False}  # any other answer: if the program needs them
_PYTHON, _MODEL = "program.py", ".onnx"


def read_form(kind: str, form: FormData, settings: ServeSettings) -> Filled:
    """Read the order and program of a form. `kind`: `hunt`, `audit`, `diagnosis` or `check`."""
    readers = {"hunt": _hunt, "audit": _audit, "diagnosis": _diagnosis, "check": _check}
    if kind not in readers:
        raise DriftlineError(f"There is no work called {one_line(kind, 40)!r}.{did_you_mean(kind, readers)}")
    return readers[kind](form, settings)


def _hunt(form: FormData, settings: ServeSettings) -> Filled:
    chosen = tuple(str(value) for value in form.getlist("generators"))
    for name in chosen:
        if name not in usual_generators():
            raise DriftlineError(f"generators {one_line(name, 40)}: there is no such generator here.")
    order = HuntOrder(
        seconds=_budget(form),
        targets=_targets(form),
        generators=() if set(chosen) >= set(usual_generators()) else chosen,
        seed=_whole(form, "seed", 0, MOST_SEED),
        jobs=_cores(form, settings),
        diagnose=bool(_text(form, "diagnose")),
        accept=settings.accept,
    )
    return order, _nothing


def _audit(form: FormData, settings: ServeSettings) -> Filled:
    from driftline.patterns.audit import chosen_compilers, split_device

    compilers = _text(form, "compilers")
    if compilers:
        chosen_compilers(split_device([name.strip() for name in compilers.split(",")])[0])
    order = AuditOrder(
        seconds=_budget(form),
        compilers=compilers,
        only=_text(form, "only"),
        seed=_whole(form, "seed", 0, MOST_SEED),
        jobs=_cores(form, settings),
    )
    return order, _nothing


def _diagnosis(form: FormData, settings: ServeSettings) -> Filled:
    from driftline.store import Store

    with Store.open(settings.store) as store:
        bug = store.bug(_text(form, "bug") or "-")
    return DiagnosisOrder(bug.id, _budget(form)), _nothing


def _check(form: FormData, settings: ServeSettings) -> Filled:
    inputs = _text(form, "inputs") or "example"
    if inputs not in STRATEGIES:
        raise DriftlineError(
            f"inputs {one_line(inputs, 40)}: there is no such strategy.{did_you_mean(inputs, STRATEGIES)}"
            f" There are: {', '.join(STRATEGIES)}."
        )
    file, shown, function, fill = _program(form)
    order = CheckOrder(
        file=file,
        shown=shown,
        function=function,
        targets=_targets(form),
        inputs=inputs,
        samples=_whole(form, "samples", 1, 1000, usual=1),
        seed=_whole(form, "seed", 0, MOST_SEED),
        jobs=_cores(form, settings),
        grad=_GRADIENTS.get(_text(form, "grad")),
        calls=_whole(form, "calls", 1, MOST_CALLS, usual=MOST_CALLS),
        accept=settings.accept,
    )
    return order, fill


def _program(form: FormData) -> tuple[str, str, str, Callable[[Path], None]]:
    """Return the program's file name in the job's folder, its display name, its function, and a function that writes
    the file. The program is not opened here: workers do that."""
    sent, text = form.get("model"), str(form.get("text") or "")
    has_file = isinstance(sent, UploadFile) and bool(sent.filename)
    if has_file and text.strip():
        raise DriftlineError("Upload a model or paste a program, not both.")
    if isinstance(sent, UploadFile) and has_file:
        name = PurePosixPath(str(sent.filename).replace("\\", "/")).name
        if not name.lower().endswith(_MODEL):
            raise DriftlineError(f"{one_line(name, 80)}: only .onnx files can be uploaded; paste a Python program.")
        if not sent.size:
            raise DriftlineError(f"{one_line(name, 80)} is empty.")
        file = identifier(name[: -len(_MODEL)]) + _MODEL
        return file, name, "", lambda folder: _keep_file(folder / file, sent)
    if not text.strip():
        raise DriftlineError("Choose an .onnx file to upload, or paste a program.")
    function = _text(form, "function") or "program"
    if not is_identifier(function) or "." in function:
        raise DriftlineError(f"function {one_line(function, 60)}: that is not the name of a Python function.")
    if not re.search(rf"^(async\s+)?def\s+{function}\b|^{function}\s*=", text, re.MULTILINE):
        raise DriftlineError(f"The program defines no function {function}(); write def {function}(): or name another.")
    body = text.replace("\r\n", "\n").encode()
    return _PYTHON, f"{function}() of a pasted program", function, lambda folder: _keep(folder / _PYTHON, body)


def _keep_file(path: Path, sent: UploadFile) -> None:
    sent.file.seek(0)
    with open(open_private(path), "wb") as file:
        shutil.copyfileobj(sent.file, file)


def _keep(path: Path, body: bytes) -> None:
    with open(open_private(path), "wb") as file:
        file.write(body)


def _nothing(folder: Path) -> None:
    """Do nothing: this order has no program to write."""


# -- fields ------------------------------------------------------------------------------------------------------------


def _text(form: FormData, name: str) -> str:
    value = form.get(name)
    text = value.strip() if isinstance(value, str) else ""
    if len(text) > 1000:
        raise DriftlineError(f"{name}: that is too long.")
    return text


def _budget(form: FormData) -> float:
    seconds = parse_budget(_text(form, "budget") or "10m", "Time")
    if seconds > LONGEST:
        raise DriftlineError("Time: at most 24h; resume it, or use driftline hunt in a terminal.")
    return seconds


def _targets(form: FormData) -> str:
    text = _text(form, "targets")
    for target in parse_targets(text) if text else ():
        require_target(target)
    return text


def _whole(form: FormData, name: str, least: int, most: int, usual: int = 0) -> int:
    text = _text(form, name)
    if not text:
        return usual
    if not re.fullmatch(r"\d{1,12}", text) or not least <= int(text) <= most:
        raise DriftlineError(f"{name} {one_line(text, 40)}: write a whole number from {least} to {most}.")
    return int(text)


def _cores(form: FormData, settings: ServeSettings) -> int:
    return _whole(form, "jobs", 1, settings.cores, usual=1)
