"""What a lane learns of a model's tries: which examples and modes fire rules, and when to stop asking."""

from __future__ import annotations

import random
from collections import Counter

from driftline.campaign.authoring.model_lane import FLOOR, MOST_FAILURES, ModelLane
from driftline.core.rule import Rule
from driftline.llm.allowance import Allowance
from driftline.llm.answers import digest_of
from driftline.llm.chat import NO_ANSWER
from driftline.store.tries import RAN, SPENT, ModelTry

RULE = Rule("r", "inductor", "g", "r", "graph")
FIRST, SECOND = "first = 1\n", "second = 2\n"
DRAWS = 300


def lane(**settings) -> ModelLane:
    return ModelLane({"r": RULE}, Allowance(**settings))


def tried(
    mode: str = "change", fired: bool = False, text: str = "", examples: tuple[str, ...] = (), **more
) -> ModelTry:
    told = {"outcome": RAN, "prompt_tokens": 10, **more}
    return ModelTry("r", mode, "m", fired=fired, text=text, examples=examples, digest=digest_of(text or mode), **told)


def chosen(state: ModelLane) -> Counter[str]:
    return Counter(text for seed in range(DRAWS) for text in state.examples("r", 1, random.Random(seed)).values())


def test_an_example_that_led_to_firing_is_shown_more_often() -> None:
    state = lane()
    state.add_first("r", FIRST)
    state.absorb([tried(fired=True, text=SECOND)])
    even = chosen(state)
    assert DRAWS / 4 < even[FIRST] < 3 * DRAWS / 4
    state.absorb([tried(fired=True, examples=(digest_of(SECOND),))] * 8)
    state.absorb([tried(examples=(digest_of(FIRST),))] * 8)
    assert chosen(state)[SECOND] > 0.95 * DRAWS


def test_a_model_that_repeats_its_example_gets_no_credit_and_no_more_examples() -> None:
    state = lane()
    state.add_first("r", FIRST)
    state.absorb([tried(fired=True, text=SECOND)])
    state.absorb([tried(fired=True, text=f"first = {n}\n", examples=(digest_of(FIRST),), copy=True) for n in range(8)])
    assert set(chosen(state)) == {FIRST, SECOND}
    assert chosen(state)[SECOND] > 0.8 * DRAWS


def test_a_lane_that_is_rebuilt_chooses_as_before() -> None:
    tries = [tried(fired=True, text=SECOND), tried(examples=(digest_of(FIRST),)), tried("sketch")]
    before, after = lane(), lane()
    before.add_first("r", FIRST)
    before.absorb(tries)
    after.absorb(tries)
    after.add_first("r", FIRST)  # the rule is shown again when it is aimed at next
    for seed in range(20):
        assert before.examples("r", 3, random.Random(seed)) == after.examples("r", 3, random.Random(seed))
        assert before.mode("r", random.Random(seed)) == after.mode("r", random.Random(seed))


def test_the_mode_that_fires_is_used_most_and_the_others_keep_a_share() -> None:
    state = lane()
    assert "change" not in {state.mode("r", random.Random(seed)) for seed in range(50)}  # there is nothing to change
    state.add_first("r", FIRST)
    state.absorb([tried("write", fired=True)] * 20 + [tried("change")] * 20 + [tried("sketch")] * 20)
    modes = Counter(state.mode("r", random.Random(seed)) for seed in range(DRAWS))
    assert modes["write"] > 0.6 * DRAWS
    assert all(modes[mode] > FLOOR * DRAWS / 3 for mode in ("change", "sketch"))


def test_twenty_requests_without_an_answer_stop_it_and_one_answer_starts_anew() -> None:
    state = lane()
    state.absorb([tried(outcome=NO_ANSWER)] * (MOST_FAILURES - 1))
    assert not state.stopped
    state.absorb([tried(), *[tried(outcome=NO_ANSWER)] * (MOST_FAILURES - 1)])
    assert not state.stopped
    state.absorb([tried(outcome=NO_ANSWER)])
    assert "20 requests in a row" in state.stopped


def test_a_larger_allowance_lets_it_go_on() -> None:
    spent = [tried()] * 10 + [tried(outcome=SPENT, prompt_tokens=0)]
    for tokens, stopped in ((100, True), (1000, False)):
        state = lane(tokens=tokens)
        state.absorb(spent)
        assert bool(state.stopped) is stopped
