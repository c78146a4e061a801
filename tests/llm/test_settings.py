"""Settings of a model: the environment wins, and what is missing or wrong is said in one sentence."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from driftline.core.errors import DriftlineError
from driftline.llm.allowance import Allowance
from driftline.llm.settings import LlmSettings, check_table, llm_settings

URL, NAME = "http://127.0.0.1:1/v1", "tiny"


def test_the_environment_wins_over_the_file() -> None:
    table = {"base_url": "http://file/v1", "model": "of-file", "price_in": 1.0, "price_out": 3.0}
    assert llm_settings(table, {}).model == "of-file"
    made = llm_settings(table, {"OPENAI_BASE_URL": URL + "/", "DRIFTLINE_LLM_MODEL": NAME, "OPENAI_API_KEY": "k"})
    assert (made.base_url, made.model, made.key, made.analyst) == (URL, NAME, "k", NAME)
    assert made.cost(1_000_000, 500_000) == 2.5


@pytest.mark.parametrize(
    ("variables", "names"),
    [
        ({}, "OPENAI_BASE_URL"),
        ({"OPENAI_BASE_URL": URL}, "DRIFTLINE_LLM_MODEL"),
        ({"OPENAI_BASE_URL": "localhost:80", "DRIFTLINE_LLM_MODEL": NAME}, "OPENAI_BASE_URL"),
    ],
)
def test_what_is_missing_is_named(variables: dict[str, str], names: str) -> None:
    with pytest.raises(DriftlineError, match=names):
        llm_settings({}, variables)


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (3, "must be a table"),
        ({"api_key": "sk-1"}, "does not belong into a file"),
        ({"modle": "x"}, "Did you mean 'model'"),
        ({"timeout": "long"}, "timeout must be a number"),
        ({"max_tokens": 100.5}, "whole number"),
        ({"model": ""}, "must be text"),
    ],
)
def test_a_wrong_table_is_refused(table, words: str) -> None:
    with pytest.raises(DriftlineError, match=words) as error:
        check_table("driftline.toml", table)
    assert "sk-1" not in str(error.value)


def test_only_variables_that_workers_do_not_see_may_hold_the_key() -> None:
    with pytest.raises(DriftlineError, match="_API_KEY"):
        llm_settings({"api_key_variable": "MY_SECRET"}, {"OPENAI_BASE_URL": URL, "DRIFTLINE_LLM_MODEL": NAME})


def test_an_address_is_shown_without_its_password() -> None:
    assert LlmSettings("https://me:hidden@host:1/v1?token=hidden", NAME).shown_url == "https://host:1/v1"


def test_an_allowance_is_shared_out() -> None:
    part = Allowance(tokens=1000, cost=3.0).share(2)
    assert part.left(499, 0.0) and not part.left(500, 0.0) and not part.left(0, 1.5)
    assert Allowance().share(3).left(10**9, 1e9)


def test_a_worker_sees_no_key() -> None:
    key = "sk-nobody-may-see-this"
    run = "from seen import ask; ask()"
    here = {"OPENAI_BASE_URL": URL, "DRIFTLINE_LLM_MODEL": NAME}
    tests = os.path.dirname(__file__)
    done = subprocess.run(
        [sys.executable, "-c", run],
        capture_output=True,
        text=True,
        env={**os.environ, **here, "OPENAI_API_KEY": key, "PYTHONPATH": f"{os.environ.get('PYTHONPATH', '')}:{tests}"},
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert "PATH" in done.stdout  # it did look
    assert key not in done.stdout
