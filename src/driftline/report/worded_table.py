"""A table with one column of sentences. On a narrow terminal the sentences are printed below their rows."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.padding import Padding
from rich.table import Table

SEEN = "what was seen"  # the title of the sentences of verdicts
WRONG = "what is wrong"  # the title of the titles of bugs
_NARROW = 80  # columns below which a column of sentences would be a few letters wide


class WordedTable:
    """Rows of short cells with a sentence in the column that `words` names. All cells are rich markup."""

    def __init__(
        self, columns: Sequence[str], *, words: str, right: Sequence[str] = (), header_style: str = "table.header"
    ) -> None:
        self._columns, self._right, self._header_style = columns, right, header_style
        self._words = columns.index(words)
        self._rows: list[tuple[str, ...]] = []

    def add(self, *cells: str) -> None:
        self._rows.append(cells)

    def print(self, out: Console) -> None:
        if out.width < _NARROW:
            self._print_narrow(out)
            return
        table = Table(box=None, pad_edge=False, header_style=self._header_style)
        for at, column in enumerate(self._columns):
            justify = "right" if column in self._right else "left"
            if at == self._words:
                table.add_column(column, overflow="fold")
            else:
                table.add_column(column, no_wrap=True, justify=justify)  # type: ignore[arg-type]
        for row in self._rows:
            table.add_row(*row)
        out.print(table)

    def _print_narrow(self, out: Console) -> None:
        for row in self._rows:
            short = [cell for at, cell in enumerate(row) if cell and at != self._words]
            if short:
                out.print("  ".join(short), overflow="fold")
            out.print(Padding(row[self._words], (0, 0, 0, 2 if short else 0)), overflow="fold")
