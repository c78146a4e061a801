"""A hunt on the compiler of `telling.py` with a language model: in a test, or as a process of its own."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from driftline.campaign.authoring.author import Author
from driftline.campaign.hunt.crew import LocalCrew
from driftline.campaign.hunt.hunter import Hunter
from driftline.campaign.hunt.plan import HuntPlan, ModelPlan
from driftline.campaign.hunt.result import HuntResult
from driftline.core.plugins import load_plugins
from driftline.core.rule import Rule
from driftline.core.target import Target
from driftline.events import Listener, ignore
from driftline.execute.pool import Pool
from driftline.llm.allowance import Allowance
from driftline.llm.client import ChatClient
from driftline.llm.model import RecordedModel
from driftline.llm.rules import RuleText, ShownRule
from driftline.llm.settings import LlmSettings
from driftline.store import Store
from driftline.store.hunts import HuntLog
from driftline.testing.chat_server import MODEL

PLUGIN = str(Path(__file__).with_name("telling.py"))
FIRST = """\
import torch

def model(x):
    return torch.relu(x).permute(1, 0)

def program():
    return model, (torch.randn(2, 3),)
"""


class Book:
    """Two rules, of one of which a program is known."""

    def rules(self, target: Target) -> Sequence[Rule]:
        if target.backend != "telling":
            return ()
        return [Rule(name, "telling", "rules", name, "graph") for name in ("r-permute", "r-relu")]

    def text(self, rule: Rule) -> RuleText:
        return RuleText(f"CallFunction({rule.name})")

    def shown(self, rule: Rule) -> ShownRule:
        return ShownRule(self.text(rule), FIRST if rule.id == "r-relu" else "")


def hunt(
    store: Path,
    url: str,
    *,
    programs: int = 30,
    tokens: int | None = None,
    replay: bool = False,
    resume: bool = False,
    generators: Sequence[str] = ("llm",),
    key: str = "",
    timeout: float = 180.0,
    listener: Listener = ignore,
    pool: Pool | None = None,
) -> HuntResult:
    load_plugins([PLUGIN])
    settings = LlmSettings(url, MODEL, key=key, connections=2, timeout=timeout, price_in=1.0, price_out=2.0)
    allowance = Allowance(tokens)
    plan = HuntPlan(("telling",), tuple(generators), programs=programs, seconds=0.0, seed=5, plugins=(PLUGIN,))
    plan = replace(plan, llm=ModelPlan.of(settings, allowance))
    client = None if replay else ChatClient(settings, wait=lambda _: False)
    own = pool or Pool()
    with Store.create(store) as opened:
        author = Author(opened, RecordedModel(opened, client), settings, Book(), allowance, seed=plan.seed)
        try:
            going = HuntLog(opened).unfinished()[0] if resume else None
            return Hunter(own, opened, plan, crew=LocalCrew(own, opened, 1), listener=listener, author=author).run(
                going
            )
        finally:
            author.close()
            if pool is None:
                own.close()


def hunted(store: Path, number: int = -1) -> dict[str, Any]:
    """What is in the store of one hunt, without times."""
    with Store.open(store) as opened:
        log = HuntLog(opened)
        chosen = log.hunts()[number]
        return {
            "turns": [(turn.number, replace(turn.body, seconds=0.0, slowest=())) for turn in log.turns(chosen)],
            "suspects": log.settled(chosen),
            "bugs": log.sightings(chosen),
        }


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("store", type=Path)
    parser.add_argument("url")
    parser.add_argument("--resume", action="store_true")
    told = parser.parse_args()
    result = hunt(told.store, told.url, resume=told.resume)
    imported = sorted({"torch", "jax", "tensorflow"} & set(sys.modules))
    print(json.dumps({"programs": result.programs, "bugs": sorted(result.bugs), "imported": imported}))
