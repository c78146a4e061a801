"""Execute a script as `__main__` in a worker, and record its events."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import random
import sys
import time
import types
import warnings
from pathlib import Path

import numpy as np
import torch
import torch._functorch.config
import torch._inductor.config

from driftline.core.errors import InternalError
from driftline.core.task import Context
from driftline.oracle.shadow.torch.higher_order import PlainOperators, plain_operators
from driftline.scenarios.entries import entries_installed
from driftline.scenarios.guards import Guards, fill_fresh_memory
from driftline.scenarios.raised import raised
from driftline.scenarios.recorder import CallRecorder
from driftline.scenarios.rejudge import Rejudge
from driftline.scenarios.requests import (
    RECORD,
    REJUDGE,
    PlayWay,
    Recorded,
    RecordRequest,
    RejudgeAnswer,
    RejudgeRequest,
    Trouble,
)
from driftline.scenarios.rounding import RoundingNoise


@RECORD.serve
def record(request: RecordRequest, context: Context) -> Recorded:
    """Run a script and record its events."""
    script = _Script(request)
    return script.play()


@REJUDGE.serve
def rejudge(request: RejudgeRequest, context: Context) -> RejudgeAnswer:
    """Run a script compiled and judge the events in question from its own state."""
    script = _Script(request.run)
    judged = Rejudge(request, script.recorder, script.guards)
    script.play()
    judged.leave_if_child()
    return RejudgeAnswer(tuple(judged.answers))


class _Script:
    """One run of a script in this process. The process is not used afterwards."""

    def __init__(self, request: RecordRequest) -> None:
        self._request = request
        self.guards = Guards(request.script)
        self.recorder = CallRecorder(
            request.folder, str(request.script), backend=request.backend, most_events=request.most_events
        )

    def play(self) -> Recorded:
        request = self._request
        _prepare(request)
        self.recorder.eager = request.way is not PlayWay.COMPILED
        began = time.perf_counter()
        try:
            code = compile(request.text, str(request.script), "exec")
        except (SyntaxError, ValueError) as refused:
            return Recorded(trouble=Trouble.LOADING, detail=str(refused))
        main = types.ModuleType("__main__")
        main.__file__ = str(request.script)
        sys.modules["__main__"] = main
        sys.path.insert(0, str(request.script.parent))
        error = self._execute(code, main)
        seconds = time.perf_counter() - began
        if isinstance(error, SystemExit) and error.code == 2 and not self.recorder.number:
            self.guards.note(Trouble.ARGUMENTS)
        self.recorder.end(vars(main), error)
        if self.recorder.fault:
            raise InternalError(self.recorder.fault)
        return self._recorded(seconds)

    def _execute(self, code: types.CodeType, main: types.ModuleType) -> BaseException | None:
        way = self._request.way
        noise = RoundingNoise() if way is PlayWay.ROUNDED else contextlib.nullcontext()
        entries = entries_installed(self.recorder, self._request.text)
        operators = contextlib.nullcontext(PlainOperators()) if way is PlayWay.COMPILED else plain_operators()
        try:
            with self.recorder.installed(), entries, noise, operators as self.recorder.operators:
                exec(code, vars(main))
        except SystemExit as left:
            return left if left.code else None
        except BaseException as caught:
            print(raised(caught, str(self._request.script)), file=sys.stderr)  # into the worker's log
            return caught
        return None

    def _recorded(self, seconds: float) -> Recorded:
        printed, size = self.guards.printed()
        return Recorded(
            printed=printed,
            printed_bytes=size,
            trouble=self.guards.trouble,
            detail=self.guards.detail,
            asks_compiler=self.recorder.own_backends,
            backends=tuple(self.recorder.backends),
            other_threads=self.recorder.other_threads,
            unrecorded=max(self.recorder.passed - self._request.most_events, 0),
            seconds=seconds,
            recording_seconds=self.recorder.seconds,
        )


def _prepare(request: RecordRequest) -> None:
    """Put the process in the same state for each run: seeds, fresh memory, and empty caches of compiled graphs."""
    warnings.simplefilter("ignore")
    fill_fresh_memory(request.fill)
    _keep_graph_caches_in(request.folder / "graphs")
    torch.compiler.set_stance("default" if request.way is PlayWay.COMPILED else "force_eager")
    torch.manual_seed(request.seed)
    random.seed(request.seed)
    np.random.seed(request.seed % 2**32)


def _keep_graph_caches_in(folder: Path) -> None:
    """Make torch keep compiled graphs in an empty folder, separate from those of other runs.

    The caches stay enabled, because two compilations in one script may share an entry, and a wrong hit is a bug of the
    compiler. Kernels stay in the common cache, because they are looked up by their source code.
    """
    places = (
        ("torch._inductor.codecache", "FxGraphCache"),
        ("torch._functorch._aot_autograd.autograd_cache", "AOTAutogradCache"),
    )
    for module, name in places:
        found = importlib.util.find_spec(module)
        cache = getattr(importlib.import_module(module), name, None) if found else None
        # a release of torch with another way to name the folder
        if cache is None or not hasattr(cache, "_get_tmp_dir"):
            torch._inductor.config.fx_graph_cache = False
            torch._functorch.config.enable_autograd_cache = False
            return
        cache._get_tmp_dir = staticmethod(functools.partial(str, folder / name))
