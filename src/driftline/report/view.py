"""The data that a report shows: plain values, built once by `gather.py` and rendered by one short module per format.

Renderers do not access the store, and the view does not depend on formats. Everything here is converted to JSON by
`dataclasses.asdict`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

OPEN, REDUCED, KNOWN, ACCEPTED, FLAKY, FIXED = "open", "reduced", "known", "accepted", "flaky", "fixed"


@dataclass(frozen=True)
class Tensor:
    """An input of the failing sample, summarised for a reader."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    values: str  # all of them when they are few, else their range and the first ones


@dataclass(frozen=True)
class PlaceView:
    """One element that is wrong."""

    index: str
    expected: str
    got: str
    off: str  # how far, in words


@dataclass(frozen=True)
class ErrorMap:
    """A map of where an output is wrong: a grid of at most a few hundred cells, each with the worst of its elements."""

    rows: int
    columns: int
    cells: tuple[float | None, ...]  # error in `unit`; None where NaN or Inf stands on one side only
    unit: str  # the unit of the errors
    limit: float  # from here on it is an error


@dataclass(frozen=True)
class Mismatch:
    """The difference between the expected and the actual values of one output of the failing sample."""

    output: str
    dtype: str
    shape: tuple[int, ...]
    wrong: int  # elements; 0 when they were not counted
    size: int
    places: tuple[PlaceView, ...]
    unit: str  # the unit of the distances in `places`, if there is one
    map: ErrorMap | None = None
    estimated: bool = False  # `wrong` is counted by `unit`, not by the verdict


@dataclass(frozen=True)
class BlamedRule:
    """The rewrite rule that an audit blames."""

    name: str
    where: str
    change: str  # the change to a program that the rule rewrites correctly
    proof: str  # the target on which the same program passes; empty if that was not shown


@dataclass(frozen=True)
class Explanation:
    """The results of reducing, localising, ablating and bisecting a bug."""

    sentences: tuple[str, ...]
    reduced: str  # the smallest program that still fails, with its inputs, as text
    nearest: str  # the most similar program that passes
    python: bool  # both are Python
    ended: str  # `1-minimal`, or why it is not
    steps: tuple[str, ...]  # how it became smaller


@dataclass(frozen=True)
class BugCause:
    """A cause that explains a bug."""

    id: str
    title: str
    reported: str  # the address of the report, or empty
    debatable: str  # the reason, or empty
    accepted: bool


@dataclass(frozen=True)
class Likeness:
    """Another bug that may have the same cause, and what the two share."""

    bug: str
    kernel: str
    dtype: str


@dataclass(frozen=True)
class LayerRow:
    """One value along a program's graph, with its error in sigma of legal rounding."""

    number: int
    title: str  # the module, or the value where it has no name
    scope: str
    op: str
    value: str
    node: str
    shape: tuple[int, ...]
    dtype: str
    sigma: float | None
    rms: float | None
    relative: float | None
    beyond: bool
    what: str
    own: float | None  # the error that is made there, on the values of the reference
    own_beyond: bool | None
    output: bool
    end: bool  # of a block


@dataclass(frozen=True)
class LayerView:
    """The error of a target along a program's graph."""

    target: str
    program: str
    reference: str
    verdict: str
    band: float  # sigma
    first: int | None  # number of the first layer beyond the band
    layers: tuple[LayerRow, ...]
    sentences: tuple[str, ...]
    matched: str


@dataclass(frozen=True)
class MatrixCell:
    """The comparison of one pair of targets."""

    text: str
    level: int  # 0: the same bits, 1: within rounding, up to 5: nothing in common
    told: str  # all that is known of the pair


@dataclass(frozen=True)
class MeasureView:
    """The matrix of one measure: absolute, relative or ulp."""

    name: str
    rows: tuple[tuple[MatrixCell, ...], ...]


@dataclass(frozen=True)
class PairwiseView:
    """The pairwise comparison of all targets of a check."""

    title: str
    members: tuple[str, ...]
    measures: tuple[MeasureView, ...]
    sentences: tuple[str, ...]


@dataclass(frozen=True)
class ShortestForm:
    """The smallest failing program of a reduced bug, shown first in a report."""

    script: str
    mismatch: Mismatch | None


@dataclass(frozen=True)
class BugView:
    """One distinct bug with its first finding."""

    id: str
    title: str
    group: str  # open, reduced, known, accepted, flaky, fixed
    status: str
    severity: int  # 0 is the worst
    severity_name: str
    compiler: str
    target: str
    versions: tuple[str, ...]
    kind: str
    stage: str
    reason: str
    fingerprint: str
    operators: tuple[str, ...]
    dtypes: tuple[str, ...]  # of the inputs, each once
    message: str  # of an error, without numbers and paths
    program: str
    form: str
    framework: str
    script: str
    origin: str  # where the failing inputs came from
    inputs: tuple[Tensor, ...]
    mismatch: Mismatch | None
    replay: str
    sightings: int
    first_seen: str
    last_seen: str
    failed_runs: tuple[int, int]
    blame: str
    others: Mapping[str, str]
    other_inputs: tuple[int, int]  # failed, judged: the same program on other inputs
    causes: tuple[BugCause, ...]
    failure: str
    traceback: str
    log: str
    durations: Mapping[str, float]
    rule: BlamedRule | None = None
    explanation: Explanation | None = None
    like: Likeness | None = None
    reference: str = ""  # the program that a deployed file is held against
    layers: LayerView | None = None
    pairwise: PairwiseView | None = None
    differences: tuple[str, ...] = ()  # of a script: sentences on the differences from eager
    spelled: tuple[str, ...] = ()  # the operators in the order and spelling of the program
    smallest: ShortestForm | None = None
    certain: bool = True  # no rounding explains it, whatever the order of operations
    debate: str = ""  # why opinions differ, in addition to the causes
    detailed: bool = True  # False: only the fields that a list shows; see `gather.DETAILED`

    @property
    def shortest(self) -> ShortestForm:
        """The smallest program that fails, or the bug as it was found."""
        return self.smallest or ShortestForm(self.script, self.mismatch)

    @property
    def debatable(self) -> bool:
        """True if opinions may differ about the bug; debatable bugs are listed after the others."""
        return bool(self.debate) or any(cause.debatable for cause in self.causes)

    @property
    def debated(self) -> str:
        """The reason why opinions differ about the bug, or an empty string."""
        return next((cause.debatable for cause in self.causes if cause.debatable), self.debate)


@dataclass(frozen=True)
class EnvironmentView:
    """The versions and settings that were tested."""

    versions: Mapping[str, str]
    facts: Mapping[str, str]  # python, platform, seeds, times: name -> words


@dataclass(frozen=True)
class LaneView:
    """The programs that one target ran and their verdicts, over all hunts."""

    target: str
    programs: int
    seconds: float
    verdicts: Mapping[str, int]


@dataclass(frozen=True)
class ModelUse:
    """The use of one language model in one mode, and the outcome of its programs."""

    model: str
    mode: str
    asked: int  # programs, or rules that it described
    answers: int  # including answers to requests for a repair
    prompt_tokens: int
    answer_tokens: int
    cost: float
    estimated: bool  # some of the tokens were not counted by the server
    outcomes: Mapping[str, int]  # ran, or the name of the problem -> answers
    ran: int
    fired: int  # programs that fired the rule they were aimed at
    rules: int  # different ones that fired
    bugs: int  # different ones
    copies: int = 0  # programs that ran and only copy a known one with other sizes

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + self.answer_tokens

    def per_thousand(self, count: int) -> float:
        """Return `count` per thousand tokens."""
        return 1000 * count / self.tokens if self.tokens else 0.0


@dataclass(frozen=True)
class SlowView:
    """A program that took long, with its slowest step."""

    target: str
    program: str
    step: str  # make, run or judge
    seconds: float
    judgement: str


@dataclass(frozen=True)
class SuspectView:
    """A program that failed in a hunt and for which no compiler is blamed."""

    target: str
    program: str  # its arm and its generator
    kind: str
    seen: str  # a sentence on the failure
    state: str  # disputed, unclear
    reason: str  # why it is no bug


@dataclass(frozen=True)
class Statistics:
    """How much was tested, and what was not tested."""

    programs: int
    seconds: float
    lanes: tuple[LaneView, ...]
    reasons: Mapping[str, Mapping[str, int]]  # rejected, inconclusive, invalid -> reason -> programs
    suspects: Mapping[str, int]  # bug, gone, flaky, unexamined, waiting
    coverage: Mapping[str, Mapping[str, Mapping[str, int]]]  # operator -> dtype -> verdict -> programs
    generators: Mapping[str, int]
    never_drawn: tuple[str, ...]
    untested: tuple[str, ...]  # sentences
    models: tuple[ModelUse, ...] = ()  # language models that wrote programs
    growth: tuple[tuple[int, tuple[str, ...]], ...] = ()  # programs so far, bugs that were seen there first
    hunt_ends: tuple[int, ...] = ()  # programs so far, at the end of each hunt
    slowest: tuple[SlowView, ...] = ()
    unsettled: tuple[SuspectView, ...] = ()  # failures that no compiler is blamed for


@dataclass(frozen=True)
class ReportView:
    """Everything that one report says."""

    store: str
    made: str
    driftline: str
    verdict: str
    environment: EnvironmentView
    bugs: tuple[BugView, ...]  # the worst first
    statistics: Statistics | None
    gaps: tuple[str, ...] = ()  # what of the store could not be read, in sentences
    pages: str = ""  # the folder beside the report with the pages of bugs that are not detailed; empty if there is none

    def group(self, name: str) -> tuple[BugView, ...]:
        return tuple(bug for bug in self.bugs if bug.group == name)

    @property
    def causes(self) -> list[tuple[BugCause, list[BugView]]]:
        """The causes that explain bugs, each with its bugs; fixed bugs do not count."""
        found: dict[str, tuple[BugCause, list[BugView]]] = {}
        for bug in self.bugs:
            for cause in bug.causes[:1] if bug.group != FIXED else ():
                found.setdefault(cause.id, (cause, []))[1].append(bug)
        return list(found.values())

    @property
    def matrix(self) -> dict[str, dict[str, int]]:
        """The number of distinct bugs by compiler and kind; fixed and flaky bugs do not count. Compilers without bugs
        are included.
        """
        found: dict[str, dict[str, int]] = {}
        for bug in self.bugs:
            row = found.setdefault(bug.compiler, {})
            if bug.group in (OPEN, REDUCED, KNOWN):
                row[bug.kind] = row.get(bug.kind, 0) + 1
        for lane in self.statistics.lanes if self.statistics else ():
            name = lane.target.partition(":")[0].partition("@")[0]
            if lane.programs and not any(compiler.partition(":")[0] == name for compiler in found):
                found[name] = {}
        return dict(sorted(found.items(), key=lambda item: (-sum(item[1].values()), item[0])))


@dataclass(frozen=True)
class ComparisonView:
    """The bugs of two stores compared: new, fixed and still present."""

    before: str
    after: str
    made: str
    driftline: str
    verdict: str
    new: tuple[BugView, ...]
    fixed: tuple[BugView, ...]
    still: tuple[BugView, ...]
    notes: Mapping[str, str] = field(default_factory=dict)  # bug -> why it is in its group
