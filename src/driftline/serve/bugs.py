"""The list of bugs with its filters, and the page of a single bug."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlencode

from starlette.datastructures import QueryParams

from driftline.causes import Library
from driftline.core.errors import DriftlineError
from driftline.core.severity import BY_KIND
from driftline.core.text import did_you_mean
from driftline.core.times import parse_since
from driftline.core.verdict import Status
from driftline.report.gather import in_brief
from driftline.report.view import BugView
from driftline.store import Store
from driftline.store.listing import ORDERS, SERIOUS, BugFilter, count_bugs, count_by_kind, list_bugs

ON_A_PAGE = 50
ORDER_WORDS = {
    "serious": "the most serious first",
    "newest": "the newest first",
    "oldest": "the oldest first",
    "seen": "the last seen first",
    "compiler": "by compiler",
    "kind": "by kind",
}
_FIELDS = ("text", "compiler", "kind", "status", "since", "order")
assert set(ORDER_WORDS) == set(ORDERS)


@dataclass(frozen=True)
class BugQuestion:
    """The filters, order and page number of a list of bugs, as the reader entered them."""

    text: str = ""
    compiler: str = ""
    kind: str = ""
    status: str = ""
    since: str = ""
    order: str = SERIOUS
    page: int = 1

    @staticmethod
    def of(asked: QueryParams) -> BugQuestion:
        given = {name: asked.get(name, "").strip() for name in _FIELDS}
        page = asked.get("page", "1")
        if not page.isascii() or not page.isdigit() or not 0 < int(page) < 1_000_000:
            raise DriftlineError(f"page={page}: pages are numbered from 1.")
        return BugQuestion(**{**given, "order": given["order"] or SERIOUS}, page=int(page))

    @property
    def narrowed(self) -> bool:
        """True if a filter is set, so that the list may lack some bugs."""
        return any((self.text, self.compiler, self.kind, self.status, self.since))

    def address(self, **other: str | int) -> str:
        """Return the address of the list with some of its values replaced by `other`."""
        values = {**{name: getattr(self, name) for name in _FIELDS}, "page": self.page, **other}
        usual: Mapping[str, str | int] = {"order": SERIOUS, "page": 1}
        said = {name: value for name, value in values.items() if value and value != usual.get(name)}
        return f"/bugs?{urlencode(said)}" if said else "/bugs"


@dataclass(frozen=True)
class BugPage:
    """One page of the list of bugs, with what its filters need."""

    asked: BugQuestion
    bugs: list[BugView]
    total: int  # that match the filters
    every: int  # in the store
    pages: int
    compilers: list[str]
    kinds: list[str]
    counts: Mapping[tuple[str, str], int]  # by compiler and kind, of all bugs
    gaps: tuple[str, ...]

    @property
    def first(self) -> int:
        return (self.asked.page - 1) * ON_A_PAGE + 1

    @property
    def last(self) -> int:
        return min(self.total, self.asked.page * ON_A_PAGE)

    @property
    def most(self) -> int:
        return max(self.counts.values(), default=0)


def bug_page(store: Store, asked: BugQuestion, library: Library) -> BugPage:
    counts = count_by_kind(store)
    compilers = sorted({compiler for compiler, _ in counts})
    kinds = sorted({kind for _, kind in counts}, key=lambda kind: (BY_KIND.get(kind, 99), kind))  # type: ignore[call-overload]
    for name, given, known in (
        ("compiler", asked.compiler, compilers),
        ("kind", asked.kind, kinds),
        ("status", asked.status, [str(status) for status in Status]),
        ("order", asked.order, list(ORDERS)),
    ):
        if given and given not in known:
            there = ", ".join(known) or "none"
            raise DriftlineError(
                f"{name}={given}: there is no such {name}.{did_you_mean(given, known)} There are: {there}."
            )
    since = parse_since(asked.since, "since") if asked.since else ""
    wanted = BugFilter(asked.compiler, asked.kind, asked.status, since, asked.text)
    total = count_bugs(store, wanted)
    pages = max(1, -(-total // ON_A_PAGE))
    if asked.page > pages:
        raise DriftlineError(f"page={asked.page}: the list has {pages} page{'s' * (pages > 1)}.")
    shown = list_bugs(store, wanted, order=asked.order, most=ON_A_PAGE, skip=(asked.page - 1) * ON_A_PAGE)
    views = in_brief(store, shown, library)
    return BugPage(asked, views, total, sum(counts.values()), pages, compilers, kinds, counts, tuple(store.gaps))
