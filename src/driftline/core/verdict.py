"""Verdicts, and the identity of what failed."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from enum import StrEnum

from driftline.core.evidence import NOTHING, Evidence
from driftline.core.text import first_line


class Judgement(StrEnum):
    PASS = "pass"
    FAIL = "fail"
    REDUCED = "reduced-precision"  # agrees if the target may compute less precisely; the evidence says how
    INCONCLUSIVE = "inconclusive"  # could not be judged; the reason says why
    REJECTED = "rejected"  # the compiler declined: never a finding


class Kind(StrEnum):
    """What sort of failure: the first thing a reader wants to know."""

    WRONG_VALUE = "wrong-value"
    BIAS = "bias"  # no single element is wrong, but together they drift
    WRONG_NONFINITE = "wrong-nan-inf"
    WRONG_DTYPE = "wrong-dtype"
    WRONG_SHAPE = "wrong-shape"
    WRONG_STRUCTURE = "wrong-structure"  # outputs missing or surplus, an input changed on one side only
    WRONG_STATE = "wrong-state"  # of scripts: shared memory, modes, random state or printed lines unlike eager's
    OUT_OF_BOUNDS = "out-of-bounds"  # bytes beside an array were written
    WRONG_ZERO_SIGN = "wrong-zero-sign"
    MISSING_ERROR = "missing-error"  # the reference raises, the compiler returns something
    ERROR = "error"
    CRASH = "crash"
    TIMEOUT = "timeout"
    OOM = "out-of-memory"
    REDUCED_PRECISION = "reduced-precision"  # right under a less precise arithmetic, which the evidence names
    # Right, and too expensive: found by `driftline perf`, never by a check.
    SLOW = "slow"
    SLOW_COMPILE = "slow-compile"  # compile time grows faster than the program
    MEMORY = "memory"  # memory grows faster than the program


VALUE_KINDS = (Kind.WRONG_VALUE, Kind.BIAS, Kind.WRONG_NONFINITE, Kind.WRONG_SHAPE, Kind.WRONG_DTYPE)
COSTS = (Kind.SLOW, Kind.SLOW_COMPILE, Kind.MEMORY)


@dataclass(frozen=True)
class Verdict:
    """Pass, Fail with evidence, or neither with the reason. `reason` is a sentence for people."""

    judgement: Judgement
    reason: str
    kind: Kind | None = None
    evidence: Evidence = NOTHING

    def __repr__(self) -> str:
        kind = f" ({self.kind})" if self.kind else ""
        return f"<Verdict {self.judgement}{kind}: {first_line(self.reason, 120)}>"

    @property
    def agrees(self) -> bool:
        """A pass, or NaN everywhere on both sides: that says nothing of a compiler, but of a case that is known to give
        a number in the place of NaN it says that the failure is gone."""
        return self.judgement is Judgement.PASS or self.evidence.blank


@dataclass(frozen=True)
class Fingerprint:
    """Which bug this is. Equal fingerprints are the same bug; the hash is its public name."""

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
    """Where a bug stands. `new` and `flaky` are set by Driftline, the rest by people or by `replay`."""

    NEW = "new"
    CONFIRMED = "confirmed"
    FLAKY = "flaky"
    KNOWN = "known"
    FIXED = "fixed"
