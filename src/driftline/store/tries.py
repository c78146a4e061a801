"""The result of one request to a language model in a hunt, stored with the turn. All statistics about models come from
it."""

from __future__ import annotations

from dataclasses import dataclass

RAN = "ran"  # the outcome of a program that could be made; all other outcomes name the problem
DESCRIBED = "described"  # the outcome of a question about a rule
DESCRIBE = "describe"  # the mode of such a question
SPENT = "allowance spent"  # no request was sent
INPUTS_REFUSED = "inputs refused"  # it runs on its own inputs, but not on drawn inputs


@dataclass(frozen=True)
class ModelTry:
    """One program requested from a model, or one question about a rule. Stored as JSON: new fields need a default."""

    rule: str  # the rule that the program was meant to fire
    mode: str
    model: str
    outcome: str
    prompt_tokens: int = 0
    answer_tokens: int = 0
    cost: float = 0.0
    estimated: bool = False
    answers: int = 1  # with a repair there are two
    fired: bool = False  # whether that rule fired
    rules: tuple[str, ...] = ()  # all rules that fired
    examples: tuple[str, ...] = ()  # digests of the programs that the model was shown
    digest: str = ""  # of the program
    copy: bool = False  # of a program that ran before, or that was shown: it was wanted on other sizes
    text: str = ""  # the program, where it fired the rule

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + self.answer_tokens
