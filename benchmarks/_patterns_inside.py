"""The part of the benchmark of rewrite rules that imports torch; `patterns.py` starts it.

    tiers              what each way of asking whether a rule fires costs: one line of JSON
    graph | optests    programs of our generators: a line with the rules that fired, for each program
    nnsmith            the same for NNSmith's, in its own environment

One line is written as soon as it is known: a program that kills the process costs the rest only.
"""

from __future__ import annotations

import itertools
import json
import logging
import statistics
import sys
import time
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from driftline.backends.inductor_rules.recorder import recorder
from driftline.backends.inductor_rules.registry import registered

DEFAULT: dict[str, str] = {}


def everything_on() -> dict[str, str]:
    """All options that any rule needs, together."""
    needs: dict[str, str] = {}
    fusions: dict[str, None] = {}
    for each in registered():
        for key, value in each.rule.needs:
            if key == "fusions":
                fusions.update(dict.fromkeys(value.split("+")))
            else:
                needs[key] = value
    return {**needs, "fusions": "+".join(fusions)}


def tell(**value: Any) -> None:
    print(json.dumps(value), flush=True)


def count(programs: Iterator[tuple[Any, tuple[Any, ...]]], seconds: float) -> None:
    """Each program with the default options and with all of them on."""
    from driftline.patterns.inductor.pipeline import PassCompilation, pass_through

    ended = time.monotonic() + seconds
    for model, inputs in programs:
        fired: set[str] = set()
        for needs in (DEFAULT, everything_on()):
            fired |= pass_through(model, inputs, PassCompilation(needs), run=False).fired
        tell(rules=sorted(fired))
        if time.monotonic() > ended:
            return


def generated(name: str, seed: int) -> Iterator[tuple[Any, tuple[Any, ...]]]:
    from driftline.generate import GENERATORS
    from driftline.generate.base import GeneratorRequest, NoProgram
    from driftline.patterns.inductor.draft import live

    generator = GENERATORS.get(name)
    arms = generator.arms("torch")
    number = 0
    while True:
        for arm in arms:
            try:
                made = generator.make(GeneratorRequest("torch", arm, number, seed))
                model, inputs = live(str(made.content))
            except NoProgram:
                continue
            values = tuple(inputs.values()) if isinstance(inputs, Mapping) else tuple(inputs)
            yield model, values
        number += 1


def peer(seed: int) -> Iterator[tuple[Any, tuple[Any, ...]]]:
    """NNSmith's programs as torch modules; about one in ten cannot be made."""
    from _nnsmith_inside import Maker
    from nnsmith.graph_gen import model_gen
    from nnsmith.util import set_seed

    maker = Maker("torch")
    failed = 0
    for number in itertools.count(seed + 1):
        set_seed(number)
        try:
            made = model_gen(
                opset=maker.operators, method="symbolic-cinit", seed=number, max_nodes=10, timeout_ms=10000
            )
            model = maker.model.from_gir(made.make_concrete())
            model.refine_weights()
            given = model.sat_inputs or model.torch_model.get_random_inps()
        except Exception:
            failed += 1
            if failed > 50:
                raise
            continue
        yield _by_name(model.torch_model.eval(), tuple(given)), tuple(given.values())


def _by_name(network: Any, names: tuple[str, ...]) -> Any:
    def model(*inputs: torch.Tensor) -> Any:
        return network(**dict(zip(names, inputs, strict=True)))

    return model


def tiers(sample: int) -> None:
    """The median cost of each way to ask, over some rules that fire."""
    from torch._inductor import config

    from driftline.backends.inductor_options import inductor_config
    from driftline.core.rule import Reach
    from driftline.patterns.inductor.alone import alone
    from driftline.patterns.inductor.draft import live
    from driftline.patterns.inductor.invert import NotBuilt, build
    from driftline.patterns.inductor.pipeline import pass_through

    spent: dict[str, list[float]] = {"build": [], "alone": [], "passes": [], "compile": []}

    def timed(name: str, started: float) -> None:
        spent[name].append(time.perf_counter() - started)

    rules = [each for each in registered() if each.search is None and not each.rule.unreachable]
    for each in rules[:: max(1, len(rules) // sample)]:
        started = time.perf_counter()
        try:
            draft = build(each, 0)
        except NotBuilt:
            continue
        timed("build", started)
        started = time.perf_counter()
        seen = alone(each, draft)
        timed("alone", started)
        if seen.reach is not Reach.FIRED_ALONE:
            continue
        model, inputs = live(draft.text())
        started = time.perf_counter()
        pass_through(model, inputs, dict(draft.needs), run=False)
        timed("passes", started)
        if len(spent["compile"]) < sample // 4:
            torch._dynamo.reset()
            started = time.perf_counter()
            options = {**inductor_config(dict(draft.needs)), "force_disable_caches": True}
            with torch.no_grad(), config.patch(options):
                torch.compile(model, dynamic=False)(*inputs)
            timed("compile", started)
    tell(tiers={name: statistics.median(times) for name, times in spent.items() if times})


def main() -> None:
    warnings.filterwarnings("ignore")
    logging.disable(logging.ERROR)
    torch.set_num_threads(1)
    recorder()
    what, amount, seed = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
    if what == "tiers":
        tiers(int(amount))
    elif what == "nnsmith":
        count(peer(seed), amount)
    else:
        count(generated(what, seed), amount)


if __name__ == "__main__":
    main()
