"""Verdicts on executions, and the fingerprints of bugs."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from enum import StrEnum

from driftline.core.evidence import NOTHING, Evidence
from driftline.core.text import first_line


class Judgement(StrEnum):
    """The possible judgements of an execution."""

    PASS = "pass"
    FAIL = "fail"
    REDUCED = "reduced-precision"  # agrees if the target may compute less precisely; the evidence names the arithmetic
    INCONCLUSIVE = "inconclusive"  # could not be judged; the reason says why
    REJECTED = "rejected"  # the compiler declined: never a finding


class Kind(StrEnum):
    """The kind of a failure."""

    WRONG_VALUE = "wrong-value"
    BIAS = "bias"  # no single element is wrong, but together they drift
    WRONG_NONFINITE = "wrong-nan-inf"
    WRONG_DTYPE = "wrong-dtype"
    WRONG_SHAPE = "wrong-shape"
    WRONG_STRUCTURE = "wrong-structure"  # outputs missing or unexpected, or an input changed on one side only
    WRONG_STATE = "wrong-state"  # in scripts: aliasing, modes, random state or printed lines differ from eager
    WRONG_DRAWS = "wrong-draws"  # random numbers are not distributed as eager's, or a seed does not fix them
    OUT_OF_BOUNDS = "out-of-bounds"  # bytes beside an array were overwritten
    WRONG_ZERO_SIGN = "wrong-zero-sign"
    MISSING_ERROR = "missing-error"  # the reference raises an error, the compiler returns a result
    ERROR = "error"
    CRASH = "crash"
    TIMEOUT = "timeout"
    OOM = "out-of-memory"
    REDUCED_PRECISION = "reduced-precision"  # right under a less precise arithmetic, which the evidence names
    # Right results that are too expensive: found by `driftline perf`, never by a check.
    SLOW = "slow"
    SLOW_COMPILE = "slow-compile"  # compile time grows faster than the program
    MEMORY = "memory"  # memory grows faster than the program


VALUE_KINDS = (Kind.WRONG_VALUE, Kind.BIAS, Kind.WRONG_NONFINITE, Kind.WRONG_SHAPE, Kind.WRONG_DTYPE)
COSTS = (Kind.SLOW, Kind.SLOW_COMPILE, Kind.MEMORY)


@dataclass(frozen=True)
class Verdict:
    """The judgement of one execution, with its evidence. `reason` is a sentence for people."""

    judgement: Judgement
    reason: str
    kind: Kind | None = None
    evidence: Evidence = NOTHING

    def __repr__(self) -> str:
        kind = f" ({self.kind})" if self.kind else ""
        return f"<Verdict {self.judgement}{kind}: {first_line(self.reason, 120)}>"

    @property
    def agrees(self) -> bool:
        """True for a pass, or if both sides are NaN everywhere. The latter proves nothing about a compiler in general,
        but for a case known to give a number instead of NaN it shows that the failure is gone."""
        return self.judgement is Judgement.PASS or self.evidence.blank


@dataclass(frozen=True)
class Fingerprint:
    """The identity of a bug: equal fingerprints are the same bug. The hash is its public name."""

    backend: str
    stage: str
    kind: str
    detail: str  # normalised message, or mismatch class and operators

    @property
    def bug_id(self) -> str:
        text = json.dumps(asdict(self), sort_keys=True)
        name = self.backend.replace(":", "-").replace("@", "-")
        return f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"

    def to_json(self) -> dict[str, str]:
        return asdict(self)

    def __str__(self) -> str:
        return f"{self.backend} / {self.stage} / {self.kind} / {self.detail}"


class Status(StrEnum):
    """The status of a bug. `new` and `flaky` are set by Driftline, the others by people or by `replay`."""

    NEW = "new"
    CONFIRMED = "confirmed"
    FLAKY = "flaky"
    KNOWN = "known"
    FIXED = "fixed"
