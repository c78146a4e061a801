"""Errors that were raised from others."""

from __future__ import annotations

import errno

from driftline.core.errors import chain, innermost
from driftline.core.full_disk import no_room


def _ring() -> BaseException:
    """As a rewriter makes it that raises the inner error again, from the outer one."""
    inner, outer = ValueError("inner"), RuntimeError("outer")
    outer.__cause__, inner.__cause__ = inner, outer
    return inner


def test_a_ring_of_errors_ends() -> None:
    assert [str(one) for one in chain(_ring())] == ["inner", "outer"]
    assert str(innermost(_ring())) == "outer"
    assert not no_room(_ring())


def test_the_context_is_asked_for() -> None:
    error = ValueError()
    error.__context__ = OSError(errno.ENOSPC, "no space")
    assert list(chain(error)) == [error]
    assert no_room(error)
