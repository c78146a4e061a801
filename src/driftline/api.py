"""`driftline.check` and `driftline.check_script`, the functions behind the command line, the web page, pytest and
notebooks."""

from __future__ import annotations

import atexit
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Unpack

from driftline.campaign.check.across import IsaFamily, require_families
from driftline.campaign.check.pairing import with_matrices
from driftline.campaign.check.scripts import ScriptSettings, check_script_file
from driftline.campaign.check.session import check_program, choose_targets, fitting_targets
from driftline.campaign.check.settings import CheckKeywords, CheckSettings
from driftline.causes import Library
from driftline.checking.accept import unused_accept
from driftline.checking.checker import Checker, Skipped
from driftline.checking.deployed import deploy
from driftline.checking.live_program import open_live
from driftline.checking.open import LoadedProgram, open_program
from driftline.checking.result import CheckResult
from driftline.core.config import default_store
from driftline.core.plugins import load_plugins
from driftline.core.program import Program
from driftline.core.shown_settings import shows
from driftline.core.strangers import answers_used
from driftline.core.target import Target
from driftline.events import Listener, ignore
from driftline.execute.pool import Pool
from driftline.scenarios.check import ScriptCheck
from driftline.store import Store

_checker: Checker | None = None


@shows(CheckSettings)
def check(
    program: Any,
    example: Any = None,
    *,
    store: str | Path | None = None,
    plugins: Sequence[str] = (),
    **settings: Unpack[CheckKeywords],
) -> CheckResult:
    """Run a program on many compilers and say which of them is wrong.

    `program` is an nn.Module or torch function with `example` inputs (a tuple or dict), an ONNX ModelProto, or the text
    that the command line takes: "model.onnx", "model.pt2", "model.pt", "file.py:name". Workers stay warm between calls.
    `settings` are the fields of `CheckSettings`.

    `dims` and `shapes` say how large inputs to make, as `--dim` and `--shape` do: `dims={"batch": 2, "seq": [16, 33]}`
    for dimensions that the program leaves open and names, `shapes={"x": (2, 8)}` (or a list of shapes) for an input by
    its name. Several sizes are one sample each.

    `accept` says which less precise arithmetic is good enough: "half-accumulation", "onnxruntime=requantise". A row
    that agrees only under such arithmetic has the judgement `reduced-precision`, or passes if it is accepted. No
    project file is read.

    `pairwise`: the result has all targets against each other, too (`result.pairwise`). `across="isa"`: each compiler
    runs on every instruction set of this machine that it can be told to use, and `result.across` compares those.
    """
    load_plugins(plugins)
    asked = CheckSettings(**settings)
    with Store.create(Path(store) if store else default_store()) as kept:
        return CheckRun(shared_checker(), kept, asked, tuple(plugins)).check(program, example)


def check_script(
    program: str | Path,
    *,
    targets: Sequence[str] | None = None,
    store: str | Path | None = None,
    timeout: float = 300.0,
    memory: int = 8,
    seed: int = 0,
) -> ScriptCheck:
    """Run a script that calls `torch.compile` itself with and without the compiler, and compare call by call.

    `program` is the path of the script, or `FILE.py:NAME` for a function whose only parameter is `compile`, which is
    called with `torch.compile`.

    `targets` take the place of the script's own backend: "dynamo:eager", "aot_eager", "aot_eager_decomp", "inductor",
    and "as-it-stands", the default, which leaves the script as it is. Each may name a release of torch that has an
    environment: "as-it-stands@2.11.0". `timeout` is in seconds and `memory` in GiB, for one run of the script. A
    failure is kept as a bug in the store.
    """
    asked = ScriptSettings(targets, timeout, memory, seed)
    with Store.create(Path(store) if store else default_store()) as kept:
        return check_script_file(shared_checker().pool, kept, str(program), asked)


@dataclass(frozen=True)
class CheckRun:
    """A check with an open store and running workers."""

    checker: Checker
    store: Store
    settings: CheckSettings
    plugins: tuple[str, ...] = ()
    library: Library | None = None  # of causes; None: the built-in ones
    listener: Listener = ignore
    require: Callable[[Program], None] = lambda program: None  # may raise, to reject a program before it runs

    def check(self, program: Any, example: Any = None) -> CheckResult:
        """Open the program, run it on the targets, and store the failures."""
        with answers_used():
            return self._check(program, example)

    def _check(self, program: Any, example: Any) -> CheckResult:
        asked = self.settings
        opened = self._open(program, example)
        self.require(opened.runs)
        wanted = asked.wanted
        unfit: list[Skipped] = []
        if wanted and "targets" in asked.usual:
            wanted, unfit = fitting_targets(opened.runs, wanted)
        families: list[IsaFamily] = []
        without = ""
        if asked.across:
            chosen, missing = choose_targets(opened.runs, wanted)
            families, without = require_families(chosen)
            unfit += missing
            wanted = list(dict.fromkeys(target for family in families for target in family.members))
        result = check_program(
            self.checker,
            self.store,
            opened,
            targets=wanted,
            inputs=asked.inputs,
            samples=asked.samples,
            sizes=asked.sizes,
            options=asked.options(self._plugin_files()),
            lifted=False if asked.reference else asked.lift,
            keep_reduced=asked.keep_reduced,
            library=self.library,
            listener=self.listener,
            extent=asked.extent,
        )
        result = self._with_notes(result, unfit, without)
        return with_matrices(self.store, result, all_targets=asked.pairwise, families=families)

    def _open(self, program: Any, example: Any) -> LoadedProgram:
        options, sizes = self.settings.options(self._plugin_files()), self.settings.sizes
        opened = open_live(program, example, self.checker.pool, options, sizes)
        if self.settings.reference:
            opened = deploy(opened, open_program(self.settings.reference, self.checker.pool, options, sizes))
        return opened

    def _plugin_files(self) -> tuple[str, ...]:
        return tuple(str(Path(path).resolve()) for path in self.plugins)

    def _with_notes(self, result: CheckResult, unfit: Sequence[Skipped], without: str) -> CheckResult:
        """Add the skipped targets, and a note about each setting that had no effect."""
        ran: list[Target] = [row.target for row in result.results]
        ran += [row.target for row in result.outcome.skipped]
        unused = () if "accept" in self.settings.usual else unused_accept(self.settings.accept, ran)
        outcome = replace(result.outcome, skipped=(*result.outcome.skipped, *unfit))
        return replace(result, outcome=outcome, notes=(*result.notes, *([without] if without else ()), *unused))


def shared_checker() -> Checker:
    """Return the checker that is shared by all calls in this process, with workers that stay warm between calls."""
    global _checker
    if _checker is None:
        pool = Pool()
        _checker = Checker(pool)
        atexit.register(pool.close)
    return _checker
