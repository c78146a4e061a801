"""Options and settings of commands that ask a language model."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from driftline.cli.settings import settings_of_run
from driftline.core.errors import DriftlineError

if TYPE_CHECKING:
    from driftline.llm.allowance import Allowance
    from driftline.llm.client import ChatClient
    from driftline.llm.settings import LlmSettings

F = TypeVar("F", bound=Callable[..., Any])
TOKENS = 200_000


def llm_tokens_option(function: F) -> F:
    return click.option(
        "--llm-tokens",
        type=click.IntRange(1),
        default=TOKENS,
        show_default=True,
        help="Tokens that a language model may use, questions and answers together.",
    )(function)


def llm_cost_option(function: F) -> F:
    return click.option(
        "--llm-cost",
        type=click.FloatRange(0, min_open=True),
        help="What a language model may cost, in the currency of price_in and price_out (driftline.toml).",
    )(function)


def settings_of_model(replay_of: str = "") -> LlmSettings:
    """From the environment and driftline.toml; one sentence where something is missing."""
    from driftline.llm.settings import llm_settings

    return llm_settings(settings_of_run("llm").llm, replay_of=replay_of)


def allowance_of(tokens: int, cost: float | None, settings: LlmSettings) -> Allowance:
    from driftline.llm.allowance import Allowance

    if cost is not None and not settings.priced:
        raise DriftlineError(
            "--llm-cost needs to know what tokens cost: set price_in and price_out, each for a million tokens, below"
            " [llm] in driftline.toml."
        )
    return Allowance(tokens, cost)


def require_answering(client: ChatClient, *models: str) -> None:
    """The server is there, takes the key and knows the models; else one sentence, before anything is begun."""
    from driftline.llm.client import NoAnswer

    try:
        client.require_model(*models)
    except NoAnswer as reason:
        raise DriftlineError(f"{client.address} gives no answer ({reason}): see OPENAI_BASE_URL.") from reason
