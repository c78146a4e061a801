"""Requests to a model and its answers, as values. A stored answer is found by the key of its request."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass

_CHARACTERS = 4  # of one token, about, in English and code
_PER_MESSAGE = 4  # tokens that a message costs besides its text


@dataclass(frozen=True)
class Message:
    role: str  # system, user, assistant
    content: str


@dataclass(frozen=True)
class Sampling:
    """Sampling parameters, under the protocol's names."""

    temperature: float = 0.8
    max_tokens: int = 2048


@dataclass(frozen=True)
class ChatRequest:
    """A request. `sample` distinguishes requests with the same words, so that each gets its own answer."""

    model: str
    messages: tuple[Message, ...]
    parameters: Sampling = Sampling()
    sample: int = 0
    choices: tuple[str, ...] = ()  # the answer is a list of some of these; a server that can is held to it

    @property
    def key(self) -> str:
        """The SHA-256 of everything that the answer depends on."""
        body: list[object] = [
            self.model,
            asdict(self.parameters),
            [[one.role, one.content] for one in self.messages],
            self.sample,
        ]
        if self.choices:
            body.append(self.choices)
        return hashlib.sha256(json.dumps(body).encode()).hexdigest()


@dataclass(frozen=True)
class ChatAnswer:
    """A model's answer. `problem` says why the text cannot be used (one of `PROBLEMS`); empty if it can."""

    text: str
    finish_reason: str = ""
    prompt_tokens: int = 0
    answer_tokens: int = 0
    estimated: bool = False  # the server did not say how many tokens it were
    problem: str = ""

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + self.answer_tokens


EMPTY, CUT_OFF, FILTERED, NOT_TEXT, REFUSED, NO_ANSWER = (
    "empty",
    "cut off",
    "filtered",
    "not text",
    "request refused",
    "no answer",
)
PROBLEMS = (EMPTY, CUT_OFF, FILTERED, NOT_TEXT, REFUSED, NO_ANSWER)


def estimated_tokens(*texts: str) -> int:
    """Estimate the number of tokens of these texts."""
    return sum(-(-len(text) // _CHARACTERS) + _PER_MESSAGE for text in texts)
