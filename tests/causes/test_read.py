"""Files of causes: what they hold, and the sentence for each mistake."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from driftline.causes import Cause, builtin, load
from driftline.causes.read import read_cause
from driftline.core.errors import DriftlineError
from driftline.core.evidence import Fault

GOOD = """
title = "64-bit integers are computed in 32 bits"
compiler = "openvino"
seen = ["2026.4.1"]
machines = ["arm64"]
kinds = ["wrong-value"]
operators = ["abs", "Neg", "Reshape + MatMul"]
dtypes = ["int64"]
faults = ["beyond-range"]
narrower = "int32"
reported = "https://example.org/1"
[witness]
program = '''
import torch

def program():
    return torch.abs, (torch.tensor([-(2**40)]),)
'''
[neighbour]
plant = "off-by-one"
"""


def _written(tmp_path: Path, text: str, name: str = "openvino/narrowed.toml") -> Path:
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_a_file_becomes_a_cause(tmp_path: Path) -> None:
    cause = read_cause(_written(tmp_path, GOOD))
    assert (cause.id, cause.faults, cause.machines) == ("openvino/narrowed", (Fault.BEYOND_RANGE,), ("aarch64",))
    assert cause.operators == (frozenset({"abs"}), frozenset({"neg"}), frozenset({"reshape", "matmul"}))
    assert cause.witness.target == "openvino"
    assert cause.neighbour and cause.neighbour.program == cause.witness.program
    assert dict(cause.conditions())["narrower"] == "int32"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("title =", "titel =", "Did you mean 'title'"),
        ("beyond-range", "beyond-rage", "Did you mean 'beyond-range'"),
        ('["int64"]', '"int64"', "dtypes must be a list of names"),
        ('["wrong-value"]', '["wrong-values"]', "Did you mean 'wrong-value'"),
        ('compiler = "openvino"', 'compiler = "tvm"', "must agree"),
        ('kinds = ["wrong-value"]', "", "kinds is missing"),
        ('title = "', "title = ", "is not valid TOML"),
        (
            'faults = ["beyond-range"]\nnarrower = "int32"',
            'faults = ["finite-value"]',
            "would explain any wrong number",
        ),
        (
            'faults = ["beyond-range"]\nnarrower = "int32"',
            'experiment = { passes_in = "float32" }',
            "would explain any",
        ),
        ('["wrong-value"]', '["error"]', "needs the compiler's message"),
        ('["wrong-value"]', '["error"]\nmessage = "."', "matches any message"),
        ('["wrong-value"]', '["error"]\nmessage = "("', "is not a regular expression"),
        ('"Neg"', '"aten.neg"', "is not the name of an operator"),
        ("return torch.abs", "return return", "syntax error in line 4"),
        ("def program", "def programm", "needs a function `program`"),
        ("[witness]", '[witness]\ntarget = "openvino:x=y:z"', "witness.target"),
        ("[witness]", '[witness]\nplant = "off-by-one"', "must fail by itself"),
        ("[neighbour]", "[neighbor]", "Did you mean 'neighbour'"),
        ("kinds =", 'experiment = { passes_wiht = "a=b" }\nkinds =', "Did you mean 'passes_with'"),
        ("kinds =", 'experiment = { passes_with = "off" }\nkinds =', "write name=value"),
    ],
)
def test_a_mistake_is_one_sentence_that_names_the_file(tmp_path: Path, old: str, new: str, said: str) -> None:
    assert old in GOOD
    path = _written(tmp_path, GOOD.replace(old, new, 1))
    with pytest.raises(DriftlineError, match=r"narrowed\.toml") as caught:
        read_cause(path)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_users_cause_takes_the_place_of_one_with_the_same_id(tmp_path: Path) -> None:
    _written(tmp_path / "one", GOOD)
    _written(tmp_path / "two", GOOD.replace("[witness]", "accepted = true\n[witness]"))
    library = load([tmp_path / "one", tmp_path / "two"])
    assert library.get("narrowed").accepted
    assert len(library) == len(builtin()) + 1
    with pytest.raises(DriftlineError, match="Did you mean 'openvino/narrowed'"):
        library.get("openvino/narowed")


def test_a_folder_that_is_none_or_holds_nothing(tmp_path: Path) -> None:
    with pytest.raises(DriftlineError, match="does not exist"):
        load([tmp_path / "missing"])
    with pytest.raises(DriftlineError, match="has no causes"):
        load([tmp_path])
    _written(tmp_path, GOOD, "stray.toml")
    with pytest.raises(DriftlineError, match="put it into a folder"):
        load([tmp_path])


def test_built_in_causes_have_a_neighbour_and_silence_nothing() -> None:
    for cause in builtin():
        assert cause.neighbour, f"{cause.id} needs a failure that must not be taken for it"
        assert cause.seen or cause.fixed, f"{cause.id}: in which release was it seen?"
        assert not cause.accepted, cause.id


def test_a_file_nested_too_deeply_is_refused_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "deep.toml").write_text(f"got = {'[' * 5000}")
    with pytest.raises(DriftlineError, match="not valid TOML"):
        read_cause(tmp_path / "deep.toml", "tvm")


# What compilers put around the words that tell what went wrong.
WRAPPERS = (
    "[ONNXRuntimeError] : # : FAIL : Non-zero status code returned while running {} node. Name:'' Status Message: ",
    "[ONNXRuntimeError] : # : FAIL : Exception during initialization: other.cc:# ",
    "method->execute() failed with error #x?",
    "source.mlir:#:#: 'other.op' op ",
)


def test_a_message_is_more_than_what_any_error_begins_with() -> None:
    """One that ended before the words took every error of MatMul for one of an empty batch."""

    def is_begun_with(cause: Cause) -> bool:
        nodes = {part for name in cause.spelled for part in name.split("+")} | {"Reshape"}
        return any(re.search(cause.message, wrapper.format(node)) for wrapper in WRAPPERS for node in nodes)

    assert not [cause.id for cause in builtin() if cause.message and is_begun_with(cause)]


@pytest.mark.parametrize(
    ("name", "hint"), [("int_pwo", "Did you mean 'int_pow'"), ("GreaterOrEquals", "Did you mean 'GreaterOrEqual'")]
)
def test_an_operator_that_no_library_has_is_refused_with_the_nearest_name(tmp_path: Path, name: str, hint: str) -> None:
    with pytest.raises(DriftlineError, match="there is no operator") as caught:
        read_cause(_written(tmp_path, GOOD.replace('"Neg"', f'"{name}"')))
    assert hint in str(caught.value)
    read_cause(_written(tmp_path, GOOD.replace('"Neg"', f'"my_library::{name}"')))


def test_titles_are_sentences_of_one_line_without_loose_words() -> None:
    """A title fits a line of a report and names things: a stranger reads only the title."""
    for cause in builtin():
        assert len(cause.title) <= 150, f"{cause.id}: {cause.title}"
        assert not re.search(r"\b(it|its own|one that|what)\b", cause.title), f"{cause.id}: {cause.title}"
        assert not cause.title.endswith("."), cause.id
