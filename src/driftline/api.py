"""`driftline.check(model, inputs)`: the command line's check, for live objects."""

from __future__ import annotations

import atexit
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from driftline.campaign.session import check_program, check_strategy
from driftline.checking.accept import parse_accept
from driftline.checking.checker import Checker
from driftline.checking.open import OpenProgram, open_program
from driftline.checking.result import CheckResult
from driftline.core.case import CheckOptions
from driftline.core.config import default_store
from driftline.core.errors import DriftlineError
from driftline.core.plugins import load_plugins
from driftline.core.target import Target, parse_targets
from driftline.core.text import first_line
from driftline.execute.pool import Pool
from driftline.oracle.choice import parse_oracle
from driftline.store import Store

_checker: Checker | None = None


def check(
    program: Any,
    example: Any = None,
    *,
    targets: Sequence[str] | None = None,
    inputs: str = "example",
    samples: int = 1,
    grad: bool = False,
    seed: int = 0,
    store: str | Path | None = None,
    plugins: Sequence[str] = (),
    timeout: float = 300.0,
    signed_zero: bool = False,
    lift: bool = False,
    oracle: str = "shadow",
    accept: Sequence[str] = (),
) -> CheckResult:
    """Run a program on many compilers and say which of them is wrong.

    `program` is an nn.Module or torch function with `example` inputs (a tuple or dict), an ONNX ModelProto, or the text
    that the command line takes: "model.onnx", "model.pt2", "file.py:name". Workers stay warm between calls.

    `accept` says which less precise arithmetic is good enough: "half-accumulation", "onnxruntime=requantise". A row
    that agrees only under such arithmetic has the judgement `reduced-precision`, or passes if it is accepted. No
    project file is read.
    """
    load_plugins(plugins)
    check_strategy(inputs)
    parse_oracle(oracle)
    wanted = [target for text in targets for target in parse_targets(text)] if targets is not None else None
    options = CheckOptions(
        grad=grad,
        seed=seed,
        timeout=timeout,
        signed_zero=signed_zero,
        oracle=oracle,
        plugins=tuple(str(Path(p).resolve()) for p in plugins),
        accept=parse_accept(accept, "accept"),
    )
    checker = _shared_checker()
    with Store.create(Path(store) if store else default_store()) as kept:
        opened = _open(program, example, checker.pool, options)
        return check_program(
            checker, kept, opened, targets=_unique(wanted), inputs=inputs, samples=samples, options=options, lifted=lift
        )


def _unique(targets: list[Target] | None) -> list[Target] | None:
    return None if targets is None else list(dict.fromkeys(targets))


def _shared_checker() -> Checker:
    global _checker
    if _checker is None:
        pool = Pool()
        _checker = Checker(pool)
        atexit.register(pool.close)
    return _checker


def _open(program: Any, example: Any, pool: Pool, options: CheckOptions) -> OpenProgram:
    if isinstance(program, (str, Path)):
        return open_program(str(program), pool, options)
    with tempfile.TemporaryDirectory() as folder:
        if type(program).__module__.startswith("onnx"):
            path = Path(folder) / "model.onnx"
            path.write_bytes(program.SerializeToString())
        else:
            path = Path(folder) / "model.pt2"
            _export(program, example, path)
        return open_program(str(path), pool, options)


def _export(model: Any, example: Any, path: Path) -> None:
    """Write a live torch model down, so that other processes can run it and the store can keep it."""
    torch = sys.modules.get("torch")
    if torch is None or not callable(model):
        raise DriftlineError(
            f"driftline.check cannot take a {type(model).__name__}: give an nn.Module or torch function with example"
            " inputs, an ONNX model, or the name of a factory as in 'file.py:make' (TensorFlow and JAX programs, too)."
        )
    if example is None:
        raise DriftlineError("driftline.check needs example inputs for a live model: check(model, (x,)).")
    module = model
    if not isinstance(model, torch.nn.Module):

        class Function(torch.nn.Module):  # type: ignore[misc, name-defined]
            def forward(self, *args: Any, **kwargs: Any) -> Any:
                return model(*args, **kwargs)

        module = Function()
    args, kwargs = ((), example) if isinstance(example, dict) else (tuple(example), {})
    try:
        with torch.no_grad():
            torch.export.save(torch.export.export(module, args, kwargs), str(path))
    except Exception as error:
        raise DriftlineError(
            f"The model cannot be captured by torch.export ({type(error).__name__}: {first_line(str(error))})."
            " Put it into a file and pass 'file.py:make', where make() returns (model, inputs)."
        ) from error
