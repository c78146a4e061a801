"""Shards of a hunt: no program in two of them, together the programs of one hunt, merged what one store would hold."""

from __future__ import annotations

import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from test_lane import make_lane, played

from driftline.campaign.hunt.crew import LocalCrew
from driftline.campaign.hunt.hunter import Hunter
from driftline.campaign.hunt.plan import HuntPlan
from driftline.campaign.hunt.shard import Shard
from driftline.core.errors import DriftlineError
from driftline.core.plugins import load_plugins
from driftline.execute.pool import Pool
from driftline.store import Store
from driftline.store.hunts import HuntLog
from driftline.store.merge import merge_stores

PLUGIN = str(Path(__file__).parent / "wrong_abs.py")
PROGRAMS = 24
FEW = 5  # for each of eight shards


def asked(shard: str, turns: int = 6) -> list[tuple[str, str, int]]:
    lane = replace(make_lane(), shard=Shard.parse(shard))
    return [(one.generator, one.arm, one.number) for turn in played(lane, turns) for one in turn]


def test_no_program_is_in_two_shards_and_all_are_in_one() -> None:
    parts = [asked(f"{number}/3") for number in (1, 2, 3)]
    every = [program for part in parts for program in part]
    assert len(set(every)) == len(every)
    for arm in {program[:2] for program in every}:
        for number, part in enumerate(parts):
            mine = [program[2] for program in part if program[:2] == arm]
            first = make_lane().alone[arm[1]] if arm[0] == "graph" else 0  # those before it are operators alone
            assert mine == [first + number + 3 * count for count in range(len(mine))]  # every third one, none left out


def test_operators_alone_are_shared_out() -> None:
    lane = make_lane()
    alone = {(arm, number) for arm, count in lane.alone.items() for number in range(count)}
    tried = [{program[1:] for program in asked(f"{number}/2") if program[0] == "alone"} for number in (1, 2)]
    assert alone <= tried[0] | tried[1] and not tried[0] & tried[1]


def test_one_shard_of_one_is_the_whole_hunt() -> None:
    assert asked("1/1") == asked("")
    assert str(Shard.parse("1/1")) == "" and str(Shard.parse("3/8")) == "3/8"


@pytest.mark.parametrize("text", ["0/8", "9/8", "3", "3/0", "a/b", "-1/8", "3/8/2"])
def test_what_is_no_shard_is_refused(text: str) -> None:
    with pytest.raises(DriftlineError, match="is no shard"):
        Shard.parse(text)


def hunt(store: Path, shard: str) -> None:
    head = [sys.executable, "-m", "driftline", "hunt", "--plugin", PLUGIN, "--targets", "wrong-abs", "--seed", "3"]
    more = ["--programs", str(PROGRAMS), "--generators", "few", "--shard", shard, "--store", str(store)]
    done = subprocess.run([*head, *more], capture_output=True, text=True, timeout=300)
    assert done.returncode == 1, done.stderr


def held(store: Path) -> dict[str, Any]:
    """What hunts found, without times and numbers."""
    with Store.open(store) as kept:
        log = HuntLog(kept)
        return {
            "turns": {
                (hunt.plan["shard"], turn.lane, turn.number): replace(turn.body, seconds=0.0, slowest=())
                for hunt in log.hunts()
                for turn in log.turns(hunt)
            },
            "suspects": {hunt.plan["shard"]: log.settled(hunt) for hunt in log.hunts()},
            "sightings": log.sightings(),
            "bugs": {bug.id: str(bug.fingerprint) for bug in kept.bugs()},
        }


@pytest.mark.slow
def test_shards_merged_are_what_one_store_would_hold(tmp_path: Path) -> None:
    for shard in ("1/2", "2/2"):
        hunt(tmp_path / shard.replace("/", "-"), shard)
        hunt(tmp_path / "one", shard)
    merge_stores([tmp_path / "2-2", tmp_path / "1-2"], tmp_path / "merged")
    merged = held(tmp_path / "merged")
    assert merged == held(tmp_path / "one")
    assert merged["bugs"] and len(merged["suspects"]) == 2


@pytest.mark.slow
def test_eight_shards_merged_are_one_run_of_the_same_programs(tmp_path: Path) -> None:
    load_plugins([PLUGIN])
    shards = [f"{number}/8" for number in range(1, 9)]
    with Pool() as pool, Store.create(tmp_path / "one") as one:
        for shard in shards:
            plan = HuntPlan(("wrong-abs",), ("few",), seed=3, seconds=0, programs=FEW, plugins=(PLUGIN,), shard=shard)
            with Store.create(tmp_path / shard.replace("/", "-")) as own:
                for store in (own, one):
                    Hunter(pool, store, plan, listener=lambda event: None, crew=LocalCrew(pool, store, 2)).run()
    folders = [tmp_path / shard.replace("/", "-") for shard in shards]
    random.Random(8).shuffle(folders)
    merge_stores(folders, tmp_path / "merged")
    merged = held(tmp_path / "merged")
    assert merged == held(tmp_path / "one")
    assert merged["bugs"] and len(merged["suspects"]) == 8
    assert sum(body.programs for body in merged["turns"].values()) == 8 * FEW
