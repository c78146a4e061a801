"""Works on several items at once and yields the results in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Asked = TypeVar("Asked")
Done = TypeVar("Done")


def ahead(work: Callable[[Asked], Done], items: Iterable[Asked], jobs: int) -> Iterator[Done]:
    """Yield the result of `work` for each item, in order, with up to `jobs` at once. If the caller closes the iterator
    or leaves it with an error, items that are not begun are cancelled; running ones are waited for."""
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
