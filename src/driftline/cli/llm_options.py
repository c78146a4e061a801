"""Options and settings of commands that ask a language model."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from driftline.cli.settings import settings_of_run
from driftline.cli.user_settings import merged_llm_table

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
        help="What a language model may cost, in the currency of price_in and price_out (user settings).",
    )(function)


def settings_of_model() -> LlmSettings:
    """From the environment, the user's settings and driftline.toml; one sentence where something is missing."""
    from driftline.llm.settings import llm_settings

    return llm_settings(llm_table_of_run())


def llm_table_of_run() -> dict[str, Any]:
    """Return the settings of the language model from the settings files."""
    return merged_llm_table(settings_of_run("llm").llm)
