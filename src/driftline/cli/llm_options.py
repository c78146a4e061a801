"""Options and settings of commands that ask a language model."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from driftline.cli.settings import settings_of_run

if TYPE_CHECKING:
    from driftline.llm.settings import LlmSettings

F = TypeVar("F", bound=Callable[..., Any])


def llm_tokens_option(function: F) -> F:
    return click.option(
        "--llm-tokens",
        type=click.IntRange(1),
        help="Tokens that a language model may use, questions and answers together.  [default: 200,000]",
    )(function)


def llm_cost_option(function: F) -> F:
    return click.option(
        "--llm-cost",
        type=click.FloatRange(0, min_open=True),
        help="What a language model may cost, in the currency of price_in and price_out (driftline.toml).",
    )(function)


def settings_of_model() -> LlmSettings:
    """From the environment and driftline.toml; one sentence where something is missing."""
    from driftline.llm.settings import llm_settings

    return llm_settings(settings_of_run("llm").llm)
