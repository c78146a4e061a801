"""The sizes of the tensors in one program, chosen once so that they fit together."""

from __future__ import annotations

from dataclasses import dataclass

from driftline.patterns.inductor.invert.bench import Bench


@dataclass(frozen=True)
class DrawnSizes:
    """Sizes that the operators of one program share."""

    rows: int
    inner: int
    columns: int
    batch: int
    channels: int
    features: int  # output channels
    side: int  # of an image
    dimensions: int  # of an image
    kernel: int
    parts: int  # that a tensor is taken apart into

    @staticmethod
    def chosen(bench: Bench) -> DrawnSizes:
        pick = bench.choose
        return DrawnSizes(
            rows=pick(4, 8, 16, 2, 1),
            inner=pick(16, 8, 32),
            columns=pick(8, 16, 4),
            batch=pick(2, 3, 1),
            channels=pick(4, 8, 3),
            features=pick(8, 16, 4),
            side=pick(8, 6),
            dimensions=pick(2, 2, 2, 1, 3),
            kernel=pick(3, 1),
            parts=(3, 12, 2, 4)[bench.attempt % 4],  # some rules are for ten and more
        )

    @property
    def matrix(self) -> tuple[int, ...]:
        return (self.rows, self.inner)

    @property
    def image(self) -> tuple[int, ...]:
        return (self.batch, self.channels, *(self.side,) * self.dimensions)
