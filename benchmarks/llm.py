"""What language models are worth to a hunt, and what asking them costs.

    python benchmarks/llm.py answers DIR --draw 610 --results R   # published answers, one file each: how many run?
    python benchmarks/llm.py screen DIR --draw 610              # the screen alone, which runs nothing
    python benchmarks/llm.py model --mode sketch --programs 100   # the model that OPENAI_BASE_URL serves
    python benchmarks/llm.py pace --programs 100                # a server that answers at once, against optests
    python benchmarks/llm.py watching --programs 20             # what seeing passes and rules costs
    python benchmarks/llm.py sandbox --programs 12              # what shutting programs in costs
    python benchmarks/llm.py prompts P.jsonl --programs 240     # what a model would be asked (--mode change, sketch)
    python benchmarks/llm.py ask P.jsonl --answers-from A.jsonl    # by the model that OPENAI_BASE_URL serves; goes on
    python benchmarks/llm.py judge P.jsonl --answers-from A.jsonl  # what came of the answers so far

`answers` gives every file to a worker as a hunt would, without a compiler and without a repair: which share gets
through the screen, and which runs in eager, on its own inputs or on other sizes. `model` is a hunt on TorchInductor in
one mode; shares have a 95 % interval (Wilson). `pace` is the same hunt with a scripted model, which changes a number of
the example that it is shown, against one of `optests` on the same target, in turns: programs a minute. `watching` and
`sandbox` are told in `_llm_costs.py`. `prompts`, `ask` and `judge` are the three steps of `model --mode change` apart,
for models that take hours (`_llm_apart.py`); without repairs.
"""

from __future__ import annotations

import argparse
import itertools
import math
import os
import random
import re
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from _llm_apart import ask, judge, name_of, tokens_a_second, write_prompts, write_sketch_prompts
from _llm_costs import FORMS, sandbox_of_a_hunt, sandbox_of_a_worker, watching

from driftline.campaign.authoring.author import Author
from driftline.campaign.hunt.crew import LocalCrew
from driftline.campaign.hunt.hunter import Hunter
from driftline.campaign.hunt.plan import HuntPlan, ModelPlan
from driftline.campaign.hunt.result import HuntResult
from driftline.checking.batch import Screening
from driftline.checking.batch_requests import ProgramRequest
from driftline.checking.checker import Checker
from driftline.core.target import Target
from driftline.events import ignore
from driftline.execute.pool import Pool
from driftline.generate.authored.factory import factory_text
from driftline.generate.authored.names import FORBIDDEN_CALL, FORBIDDEN_IMPORT, NO_MODEL, NOT_PYTHON, Unusable
from driftline.generate.authored.screen import screened
from driftline.generate.llm import MODES, SKETCH
from driftline.llm.allowance import Allowance
from driftline.llm.answers import code_of
from driftline.llm.client import ChatClient
from driftline.llm.model import RecordedModel
from driftline.llm.settings import LlmSettings, llm_settings
from driftline.patterns.rule_book import CompilerRules
from driftline.report.model_use import HEAD, model_cells, model_use, wasted
from driftline.store import Store
from driftline.store.hunts import HuntLog
from driftline.testing.chat_server import MODEL, ChatReply, ChatServer, reply

_SCREEN = (NOT_PYTHON, FORBIDDEN_IMPORT, FORBIDDEN_CALL, NO_MODEL)
_PATIENCE = 3600.0  # seconds for an answer: models on a CPU are slow
_ANOTHER = "scripted-again"
BATCH = 10
_WITH_FILE = ("answers", "screen", "prompts", "ask", "judge")
_WITHOUT_FILE = ("model", "pace", "watching", "sandbox")
# Published answers begin behind the imports, which the harness that ran them put there.
_IMPORTS = """\
import math
import numpy as np
import torch
import torch as th
import torch.linalg as la
import torch.linalg as linalg
import torch.nn as nn
import torch.nn.functional as F
from torch.autograd import Variable
from torch.nn import Parameter
"""


def interval(hits: int, of: int, z: float = 1.96) -> str:
    """A share with its 95 % interval, by Wilson."""
    if not of:
        return "-"
    share = hits / of
    middle = (share + z * z / (2 * of)) / (1 + z * z / of)
    half = z * math.sqrt(share * (1 - share) / of + z * z / (4 * of * of)) / (1 + z * z / of)
    return f"{hits} of {of}: {100 * share:.0f} % ({100 * (middle - half):.0f} to {100 * (middle + half):.0f})"


def drawn(folder: Path, draw: int, seed: int) -> list[Path]:
    """Files of Python; where there are none, of text: beside published answers lie prompts and times."""
    files = sorted(folder.rglob("*.py")) or sorted(path for path in folder.rglob("*") if path.suffix in (".txt", ".md"))
    if not files:
        sys.exit(f"There are no answers (.py, .txt, .md) in {folder}.")
    return random.Random(seed).sample(files, min(draw, len(files)))


def screen(chosen: Sequence[Path]) -> None:
    """The screen alone, which runs nothing: seconds for hundreds."""
    names: Counter[str] = Counter()
    for path in chosen:
        text = _read(path)
        try:
            factory_text(screened(text, "torch"), text)
            names["through"] += 1
        except Unusable as reason:
            names[reason.name] += 1
    print(f"through the screen   {interval(names.pop('through', 0), len(chosen))}")
    for name, count in names.most_common():
        print(f"  {count:5d}  {name}")


def answers(chosen: Sequence[Path], results: Path | None) -> None:
    """`results`: what became of each file, in the order of the draw; what is there already is not run again."""
    done = _noted(chosen, results)
    with Pool() as pool:
        for at in range(len(done), len(chosen), BATCH):
            batch = chosen[at : at + BATCH]
            requests = [
                ProgramRequest("llm", path.stem, number, ("random",), str(number), text=_read(path), mode="write")
                for number, path in enumerate(batch, at)
            ]
            with Screening(pool, "torch") as screening:
                found = [name_of(made) for made in screening.prepared(requests, Target("inductor"))]
            done += found
            if results:
                with results.open("a") as file:
                    file.writelines(f"{name}\t{path.stem}\n" for name, path in zip(found, batch, strict=True))
            print(f"{len(done)} of {len(chosen)}: {dict(Counter(done).most_common())}", file=sys.stderr, flush=True)
    names = Counter(done)
    rejected = sum(names[name] for name in _SCREEN)
    print(f"through the screen   {interval(len(chosen) - rejected, len(chosen))}")
    print(f"run in eager         {interval(names['ran'] + names['inputs refused'], len(chosen))}")
    for name, count in names.most_common():
        print(f"  {count:5d}  {name}")


def _noted(chosen: Sequence[Path], results: Path | None) -> list[str]:
    """What an earlier run wrote down of this draw."""
    lines = results.read_text().splitlines() if results and results.exists() else []
    noted = [line.split("\t") for line in lines]
    if [stem for _, stem in noted] != [path.stem for path in chosen[: len(noted)]]:
        sys.exit(f"{results} is about another draw: give another file.")
    return [name for name, _ in noted]


def _read(path: Path) -> str:
    text = code_of(path.read_text(errors="replace"))
    return text if re.search(r"^(import|from) torch\b", text, re.M) else _IMPORTS + text


def hunted(
    store: Path, programs: int, seed: int, *, settings: LlmSettings | None = None, mode: str = "", jobs: int = 1
) -> HuntResult:
    """A hunt on Inductor: with a model, or of optests."""
    plan = HuntPlan(("inductor",), ("llm",) if settings else ("optests",), seconds=0.0, programs=programs, seed=seed)
    with Pool() as pool, Store.create(store) as opened:
        if settings is None:
            return Hunter(pool, opened, plan, crew=LocalCrew(pool, opened, jobs), listener=ignore).run()
        client = ChatClient(settings)
        client.require_model(settings.model)
        book = CompilerRules(Checker(pool, jobs), opened)
        modes = [mode] if mode else MODES
        author = Author(opened, RecordedModel(opened, client), settings, book, Allowance(), seed=seed, modes=modes)
        plan = replace(plan, llm=ModelPlan.of(settings, Allowance()))
        try:
            return Hunter(pool, opened, plan, crew=LocalCrew(pool, opened, jobs), listener=ignore, author=author).run()
        finally:
            author.close()


def model(store: Path, programs: int, seed: int, mode: str) -> None:
    settings = llm_settings({"timeout": _PATIENCE})
    began = time.monotonic()
    result = hunted(store, programs, seed, settings=settings, mode=mode)
    with Store.open(store) as opened:
        uses = model_use(HuntLog(opened), [result.hunt])
    print("  ".join(HEAD))
    for use in uses:
        print("  ".join(model_cells(use)))
        if use.mode != "describe":
            print(f"  ran     {interval(use.ran, use.asked)}\n  fired   {interval(use.fired, use.asked)}")
    print(f"no programs: {wasted(uses) or 'none'}; {len(result.bugs)} bugs; {time.monotonic() - began:.0f} s")


_answers = itertools.count()


def _at_once(body: dict[str, Any]) -> ChatReply:
    """A model that changes one number of the example, never to the same."""
    asked = body["messages"][-1]["content"]
    example = re.search(r"```python\n(.*?)```", asked, re.S)
    if example is None:
        return reply("PATTERN:\nx\nCONSTRAINTS:\n- none")
    return reply(f"```python\n{example[1]}\nNUMBER = {next(_answers)}\n```")


def pace(store: Path, programs: int, seed: int, pairs: int, prepare: bool) -> None:
    """What a rule looks for is worked out once for a store, which takes longer than all the rest: by a hunt that is not
    timed. In the timed one the model has another name, and so is asked anew. The compiler's caches are empty."""
    os.environ["DRIFTLINE_CACHE"] = str(store / "cache")
    with ChatServer(_at_once, models=(MODEL, _ANOTHER)) as server:
        for pair in range(pairs):
            if not (place := store / f"llm{pair}").exists() or prepare:
                hunted(place, programs, seed + pair, settings=LlmSettings(server.url, MODEL), mode="change")
        for pair in range(0 if prepare else pairs):
            rates = {}
            for name in ("llm", "optests") if pair % 2 else ("optests", "llm"):
                shutil.rmtree(store / "cache" / "compilers", ignore_errors=True)
                asked, place = LlmSettings(server.url, _ANOTHER) if name == "llm" else None, store / f"{name}{pair}"
                rates[name] = _rate(hunted(place, programs, seed + pair, settings=asked, mode="change"), place)
                print(f"{name:8} {rates[name]:6.1f} programs a minute", flush=True)
            print(f"share    {100 * rates['llm'] / rates['optests']:6.0f} %", flush=True)


def judged(prompts: Path, given: Path, seed: int, compiled: bool) -> None:
    found = judge(prompts, given, seed, BATCH, compiled)
    ran = found.outcomes["ran"]
    print(f"run in eager                    {interval(ran, found.asked)}")
    if compiled:
        print(f"  without copies                {interval(ran - found.copies[0], found.asked)}")
        print(f"  without any search for sizes  {interval(ran - found.resized, found.asked)}")
        print(f"fire the rule aimed at          {interval(found.fired, found.asked)}")
        print(f"  without copies                {interval(found.fired - found.copies[1], found.asked)}")
    for name, count in found.outcomes.most_common():
        print(f"  {count:5d}  {name}")
    print(f"{tokens_a_second(given):.1f} tokens a second for one question")
    print(f"{len(found.failures)} look wrong, before they are confirmed")
    for failure in found.failures:
        print(f"  {failure}")


def _rate(result: HuntResult, store: Path) -> float:
    """Programs a minute, what came to nothing left out, of the turns after the first with a program that runs: that one
    starts the compiler."""
    with Store.open(store) as opened:
        turns = [turn.body for turn in HuntLog(opened).turns(result.hunt)]
    made = [body.programs - body.counts.get("nothing", 0) for body in turns]
    later = 1 + next((number for number, count in enumerate(made) if count), 0)
    return 60 * sum(made[later:]) / max(1e-9, sum(body.seconds for body in turns[later:]))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "what", choices=("answers", "screen", "model", "pace", "watching", "sandbox", "prompts", "ask", "judge")
    )
    parser.add_argument("file", type=Path, nargs="?", help="a folder of published answers, or the file of prompts")
    parser.add_argument("--answers-from", type=Path, metavar="FILE", help="answers to the prompts, by key")
    parser.add_argument("--model", default="", help="whose name the prompts have; default: DRIFTLINE_LLM_MODEL")
    parser.add_argument("--max-tokens", type=int, default=400, help="of an answer to a prompt")
    parser.add_argument("--draw", type=int, default=610)
    parser.add_argument("--results", type=Path, metavar="FILE", help="of `answers`: what came of each; goes on there")
    parser.add_argument("--programs", type=int, default=100)
    parser.add_argument("--mode", choices=MODES, default="change")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help=f"of what is watched, with commas: {', '.join(FORMS)}")
    parser.add_argument("--pairs", type=int, default=2, help="of hunts, one of each kind, in turns")
    parser.add_argument("--prepare", action="store_true", help="of `pace`: what is not timed, for a store that is kept")
    parser.add_argument("--connections", type=int, default=1, help="of `ask`: questions at a time")
    parser.add_argument("--eager", action="store_true", help="of `judge`: run the programs and compile none")
    parser.add_argument("--store", type=Path, help="kept, with every answer; default: a temporary one")
    told = parser.parse_args(arguments)
    if (told.what in _WITHOUT_FILE) == (told.file is not None):
        parser.error(f"{', '.join(_WITHOUT_FILE)} take no file, the others take one")
    if (told.what in ("ask", "judge")) != (told.answers_from is not None):
        parser.error("`ask` and `judge` need --answers-from, the others take none")
    with tempfile.TemporaryDirectory() as folder:
        store = told.store or Path(folder) / "store"
        if told.what == "answers":
            answers(drawn(told.file, told.draw, told.seed), told.results)
        elif told.what == "screen":
            screen(drawn(told.file, told.draw, told.seed))
        elif told.what == "prompts":
            name = told.model or llm_settings(replay=True).model
            write = write_sketch_prompts if told.mode == SKETCH else write_prompts
            write(store, told.file, told.programs, told.seed, name, told.max_tokens)
        elif told.what == "ask":
            ask(llm_settings({"timeout": _PATIENCE, "connections": told.connections}), told.file, told.answers_from)
        elif told.what == "judge":
            judged(told.file, told.answers_from, told.seed, not told.eager)
        elif told.what == "watching":
            for compiler in told.only.split(",") if told.only else FORMS:
                watching(compiler, told.programs, told.seed)
        elif told.what == "sandbox":
            sandbox_of_a_worker()
            sandbox_of_a_hunt(lambda place: hunted(place, told.programs, told.seed), store, told.pairs)
        elif told.what == "model":
            model(store, told.programs, told.seed, told.mode)
        else:
            pace(store, told.programs, told.seed, told.pairs, told.prepare)


if __name__ == "__main__":
    main()
