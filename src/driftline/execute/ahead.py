"""Work on several things at once, and take the answers in the order in which they were asked for."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Asked = TypeVar("Asked")
Done = TypeVar("Done")


def ahead(work: Callable[[Asked], Done], items: Iterable[Asked], jobs: int) -> Iterator[Done]:
    """What becomes of each item, in their order, with so many in work at once. What is not begun when the caller has
    had enough (closes the iterator, or leaves it with an error) is not begun at all; what is in work is waited for."""
    waiting: deque[Future[Done]] = deque()
    with ThreadPoolExecutor(max(1, jobs)) as threads:
        try:
            for item in items:
                waiting.append(threads.submit(work, item))
                if len(waiting) >= jobs:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
