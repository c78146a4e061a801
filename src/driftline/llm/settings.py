"""The address and prices of the model, from the environment or from `[llm]` in the user's settings file
(`cli/user_settings.py`). A project's driftline.toml may set everything except the account: address, key and prices.

    [llm]
    base_url = "http://127.0.0.1:8080/v1"   # or OPENAI_BASE_URL
    model = "qwen2.5-coder"                  # or DRIFTLINE_LLM_MODEL
    analysis_model = "a-larger-one"          # reads rules; default: the same
    api_key_variable = "MY_API_KEY"          # default: OPENAI_API_KEY
    price_in = 0.15                          # for a million tokens of questions
    price_out = 0.60                         # for a million tokens of answers

The environment wins over the files. The key itself stands in the environment and nowhere else.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from driftline.core.config import user_settings_file
from driftline.core.errors import DriftlineError
from driftline.core.secrets import KEY_SUFFIX, take_key
from driftline.core.text import did_you_mean

BASE_URL, API_KEY, MODEL = "OPENAI_BASE_URL", "OPENAI_API_KEY", "DRIFTLINE_LLM_MODEL"

_TEXTS = ("base_url", "model", "analysis_model", "api_key_variable")
OF_THE_ACCOUNT = ("base_url", "api_key_variable", "price_in", "price_out")  # no project decides about these
_NUMBERS = {  # with the smallest and the largest value
    "price_in": (0.0, 1e6),
    "price_out": (0.0, 1e6),
    "timeout": (1.0, 86400.0),
    "temperature": (0.0, 2.0),
    "max_tokens": (16, 1 << 20),
    "connections": (1, 64),
}


@dataclass(frozen=True)
class LlmSettings:
    """The settings for requests to a model. The key is not part of its repr."""

    base_url: str
    model: str
    analysis_model: str = ""
    key: str = field(default="", repr=False)
    key_variable: str = API_KEY
    price_in: float | None = None  # for a million tokens
    price_out: float | None = None
    timeout: float = 180.0  # seconds for one answer
    temperature: float = 0.8
    max_tokens: int = 2048
    connections: int = 4

    @property
    def analyst(self) -> str:
        return self.analysis_model or self.model

    @property
    def shown_url(self) -> str:
        """The address for messages, without user name and password."""
        parts = urlsplit(self.base_url)
        return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))

    @property
    def priced(self) -> bool:
        return self.price_in is not None and self.price_out is not None

    def cost(self, prompt_tokens: int, answer_tokens: int) -> float:
        """Return the cost of these tokens; 0 if no price is known."""
        return (prompt_tokens * (self.price_in or 0.0) + answer_tokens * (self.price_out or 0.0)) / 1e6


def check_table(said_by: str, table: Any) -> dict[str, Any]:
    """Validate the `[llm]` table of a settings file, and return it. `said_by` names the file in errors."""
    if not isinstance(table, dict):
        raise DriftlineError(f'{said_by}: llm must be a table, as in [llm] with base_url = "..." below it.')
    for key, value in table.items():
        if key in ("api_key", "key", "OPENAI_API_KEY"):
            raise DriftlineError(
                f"{said_by}: a key does not belong into a file: put it into the environment as {API_KEY}, or name"
                " another variable with api_key_variable."
            )
        if key in _TEXTS:
            if not isinstance(value, str) or not value:
                raise DriftlineError(f"{said_by}: llm.{key} must be text.")
        elif key in _NUMBERS:
            low, high = _NUMBERS[key]
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high:
                raise DriftlineError(f"{said_by}: llm.{key} must be a number from {low:g} to {high:g}.")
            if isinstance(low, int) and not isinstance(value, int):
                raise DriftlineError(f"{said_by}: llm.{key} must be a whole number.")
        else:
            known = (*_TEXTS, *_NUMBERS)
            raise DriftlineError(
                f"{said_by}: there is no setting llm.{key}.{did_you_mean(key, known)} Known: {', '.join(known)}."
            )
    return dict(table)


def llm_settings(
    table: Mapping[str, Any] | None = None,
    variables: Mapping[str, str] | None = None,
    *,
    model: str = "",
    replay: bool = False,
) -> LlmSettings:
    """Return the settings of this run, from `table` and from `variables` (default: the environment). `model` is the
    model of a hunt that is resumed or repeated. A replay needs no address."""
    taking = take_key if variables is None else variables.get
    variables = os.environ if variables is None else variables
    told = dict(table or {})
    key_variable = told.pop("api_key_variable", API_KEY)
    if not key_variable.endswith(KEY_SUFFIX):
        raise DriftlineError(
            f"llm.api_key_variable = {key_variable!r}: its name must end in {KEY_SUFFIX}, as only such variables are"
            " kept from the programs that run."
        )
    url = variables.get(BASE_URL) or told.pop("base_url", "")
    model = model or variables.get(MODEL) or told.pop("model", "")
    told = {key: value for key, value in told.items() if key not in ("base_url", "model")}
    if not url and not replay:
        raise DriftlineError(
            f"No address of a language model is set: set {BASE_URL}, or base_url below [llm] in"
            f" {user_settings_file()}, to that of a server which speaks /v1/chat/completions, such as"
            " http://127.0.0.1:8080/v1."
        )
    if url and urlsplit(url).scheme not in ("http", "https"):
        raise DriftlineError(f"{BASE_URL}: {url!r} is no address; write it as http://127.0.0.1:8080/v1.")
    if not model:
        raise DriftlineError(
            f"No language model is named: set {MODEL}, or model below [llm] in driftline.toml, to a name that the"
            " server knows."
        )
    return LlmSettings(url.rstrip("/"), model, key=taking(key_variable) or "", key_variable=key_variable, **told)
