"""Requests about Inductor's rules and their answers. Imports no compiler.

Private operators may kill the process even without a compiler. Tasks about many rules therefore write their answers to
a file, `ANSWERS`, with a line before each question and a line for each answer as soon as it is known, so that the
parent sees which question was the last.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO, cast

from driftline.core.handover import lines_of
from driftline.core.rule import Reach, Rule
from driftline.core.task import Task
from driftline.core.wire import DAMAGES, codec_of
from driftline.llm.rules import RuleText

_TASKS = "driftline.patterns.inductor.tasks"
WARM = f"{_TASKS}:warm"
ANSWERS = "answers.jsonl"


# -- all rules, or one


@dataclass(frozen=True)
class ListRulesRequest:
    pass


@dataclass(frozen=True)
class InductorRules:
    """Every rule in the torch of one interpreter."""

    version: str
    rules: tuple[Rule, ...]


@dataclass(frozen=True)
class ListOutsideRequest:
    pass


@dataclass(frozen=True)
class OutsideRules:
    """The rewrites outside the pattern tables, and the subjects to sweep for them."""

    rules: tuple[Rule, ...]
    subjects: tuple[str, ...]


@dataclass(frozen=True)
class RuleTextRequest:
    rule: str


@dataclass(frozen=True)
class ShowRuleRequest:
    rule: str
    attempts: int
    seconds: float


@dataclass(frozen=True)
class RuleAtWork:
    """One rule as the compiler prints it, with a program that fires it, and what it leaves unconstrained."""

    text: RuleText
    reach: Reach
    program: str
    options: Mapping[str, str]
    reason: str  # why it does not fire
    free: tuple[str, ...]


# -- many rules, one after another


@dataclass(frozen=True)
class FireRequest:
    """Asks to make the rules fire."""

    subjects: tuple[str, ...]
    folder: Path
    seconds_each: float
    attempts: int
    device: str = "cpu"


@dataclass(frozen=True)
class SweepRequest:
    """Asks for every rewrite that is active on the programs of each subject."""

    subjects: tuple[str, ...]
    folder: Path
    seconds_each: float
    seed: int
    device: str = "cpu"


@dataclass(frozen=True)
class SuspectRequest:
    """Asks to change what rules leave unconstrained, and to report the programs that they then get wrong."""

    subjects: tuple[str, ...]
    folder: Path
    seconds_each: float
    seed: int
    programs: Mapping[str, FiringProgram]  # of each rule
    device: str = "cpu"


@dataclass(frozen=True)
class FiringProgram:
    """How to rebuild the program that fires a rule: the number of the attempt, and the rule it was built for if
    another."""

    attempt: int
    made_for: str = ""


@dataclass(frozen=True)
class Written:
    """The answer of a task whose results are in the folder."""


ManyRequest = FireRequest | SweepRequest | SuspectRequest


# -- the lines of the file


@dataclass(frozen=True)
class QuestionAsked:
    """The line before a question about a subject."""

    subject: str


@dataclass(frozen=True)
class QuestionDone:
    """The line after the last answer about a subject."""

    subject: str


@dataclass(frozen=True)
class QuestionMistaken:
    """An error in Driftline itself, which affects only this subject."""

    subject: str
    traceback: str


@dataclass(frozen=True)
class Firing:
    """How far a rule came, and with which program."""

    rule: str
    reach: Reach = Reach.NONE
    attempt: int | None = None
    text: str = ""
    needs: tuple[tuple[str, str], ...] = ()
    training: bool = False
    also: tuple[str, ...] = ()  # other rules that fired on this program
    reason: str = ""  # why it did not fire


@dataclass(frozen=True)
class Swept:
    """The rules and passes that were active on the programs of a subject."""

    subject: str
    rewrites: tuple[str, ...] = ()
    problem: str = ""


@dataclass(frozen=True)
class RuleSuspect:
    """A program that a rule seems to get wrong."""

    rule: str
    mutation: str
    text: str
    needs: Mapping[str, str]
    training: bool
    dynamic: bool
    kind: str  # wrong, error, shape, dtype; or unjudged, when only real code can tell
    detail: str = ""
    reachable: bool = True  # uses only functions that people use
    guilty: tuple[str, ...] = field(default=())  # rules without which it is right; none when it is another part

    @property
    def name(self) -> str:
        """A name that is equal for suspects that are one finding: the rules to blame, the change, and the kind of
        failure."""
        return f"{'+'.join(self.guilty) or self.rule} {self.mutation} {self.kind}"


RuleAnswer = Firing | Swept | RuleSuspect
Line = QuestionAsked | QuestionDone | QuestionMistaken | Firing | Swept | RuleSuspect


def write_line(file: TextIO, line: Line) -> None:
    file.write(json.dumps(codec_of(Line).encode(line)) + "\n")
    file.flush()


def read_lines(path: Path) -> list[Line]:
    """Read the lines of a file. The last one may be damaged, if the writer died; it is then skipped."""
    found: list[Line] = []
    for text in lines_of(path):
        try:
            found.append(cast(Line, codec_of(Line).decode(json.loads(text))))
        except DAMAGES:
            break
    return found


LIST_RULES = Task(f"{_TASKS}:list_rules", ListRulesRequest, InductorRules)
LIST_OUTSIDE = Task(f"{_TASKS}:list_outside", ListOutsideRequest, OutsideRules)
RULE_TEXT = Task(f"{_TASKS}:rule_text", RuleTextRequest, RuleText)
SHOW_RULE = Task(f"{_TASKS}:show_rule", ShowRuleRequest, RuleAtWork)
FIRE = Task(f"{_TASKS}:fire", FireRequest, Written)
SWEEP = Task(f"{_TASKS}:sweep", SweepRequest, Written)
SUSPECT = Task(f"{_TASKS}:suspect", SuspectRequest, Written)
