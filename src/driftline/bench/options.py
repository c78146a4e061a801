"""The options of a run of the suite."""

from __future__ import annotations

from dataclasses import dataclass

from driftline.bench.suite import FULL
from driftline.core.case import CheckOptions


@dataclass(frozen=True)
class BenchOptions:
    """The size, dtype, effort and limits of a run."""

    size: str = FULL
    dtype: str = "float32"
    repeat: int = 20  # rounds
    seconds: float = 60.0  # after so many no further round is begun, for each target
    verdict: bool = True
    seed: int = 0
    timeout: float = 900.0
    memory_limit: int = 16 << 30
    plugins: tuple[str, ...] = ()

    def of_checks(self) -> CheckOptions:
        return CheckOptions(seed=self.seed, timeout=self.timeout, memory_limit=self.memory_limit, plugins=self.plugins)
