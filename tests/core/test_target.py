"""The grammar of targets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from driftline.core.errors import DriftlineError
from driftline.core.target import Target, parse_targets

words = st.from_regex(r"[A-Za-z_][A-Za-z0-9_.-]{0,8}", fullmatch=True)
values = st.from_regex(r"[A-Za-z0-9_.+-]{1,8}", fullmatch=True) | st.text('ab:=," \\\n@+-', min_size=1, max_size=8)
versions = st.none() | st.from_regex(r"[0-9][0-9a-z.+]{0,8}", fullmatch=True)


@st.composite
def targets(draw: st.DrawFn) -> Target:
    backend = ":".join(draw(st.lists(words, min_size=1, max_size=2)))
    options = draw(st.dictionaries(words, values, max_size=3))
    return Target(backend, draw(versions), tuple(options.items()))


@given(targets())
def test_text_and_back(target: Target) -> None:
    assert Target.parse(str(target)) == target


@given(st.lists(targets(), min_size=1, max_size=4))
def test_lists_and_back(several: list[Target]) -> None:
    assert parse_targets(",".join(map(str, several))) == list(dict.fromkeys(several))


@given(st.text(max_size=20))
def test_any_text_is_a_target_or_a_sentence(text: str) -> None:
    try:
        target = Target.parse(text)
    except DriftlineError as error:
        assert text.strip() in str(error) or repr(text) in str(error)
    else:
        assert Target.parse(str(target)) == target


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("inductor", Target("inductor")),
        (" tvm:opt=0 ", Target("tvm", None, (("opt", "0"),))),
        ("onnxruntime@1.15.1:opt=off", Target("onnxruntime", "1.15.1", (("opt", "off"),))),
        ("inductor:freezing=true:device=cuda", Target("inductor", None, (("freezing", "true"), ("device", "cuda")))),
        ("dynamo:openvino", Target("dynamo:openvino")),
        ("dynamo:openvino:device=cpu", Target("dynamo:openvino", None, (("device", "cpu"),))),
        ('tvm:target="llvm -mcpu=x -mattr=+a,+b"', Target("tvm", None, (("target", "llvm -mcpu=x -mattr=+a,+b"),))),
        (r'x:a="b:\"c\\":d=e', Target("x", None, (("a", 'b:"c\\'), ("d", "e")))),
        ("x:option=a=b", Target("x", None, (("option", "a=b"),))),
    ],
)
def test_examples(text: str, expected: Target) -> None:
    assert Target.parse(text) == expected


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "is not of the form"),
        ("tvm@", "is not of the form"),
        ("@1.0", "is not of the form"),
        ("tvm:", "is not of the form"),
        ("t v m", "is not of the form"),
        ("tvm:opt=", "'opt=' is not an option"),
        ("tvm:=1", "'=1' is not an option"),
        ("dynamo:a:b", "'b' is not an option"),
        ("tvm:opt=0:opt=1", "sets 'opt' twice"),
        ('tvm:target="llvm', "a quote that is not closed"),
        ('tvm:target="llvm"x', "is not a quoted value"),
        ('tvm:target=""', "is not a quoted value"),
    ],
)
def test_mistakes_are_explained(text: str, told: str) -> None:
    with pytest.raises(DriftlineError, match=told):
        Target.parse(text)


def test_device() -> None:
    assert Target.parse("inductor").device == "cpu"
    assert Target.parse("inductor:device=cuda").device == "cuda"


def test_the_same_target_twice_is_kept_once_and_none_is_refused() -> None:
    assert parse_targets("tvm, tvm,iree,") == [Target("tvm"), Target("iree")]
    with pytest.raises(DriftlineError, match="No target given"):
        parse_targets(" , ")
