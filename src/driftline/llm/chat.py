"""What a model is asked and what it answers, as values. The key of a request finds its answer again."""

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
    """How an answer is drawn, in the protocol's own names."""

    temperature: float = 0.8
    max_tokens: int = 2048


@dataclass(frozen=True)
class ChatRequest:
    """A question. `sample` tells questions apart that are the same word for word: each has an answer of its own."""

    model: str
    messages: tuple[Message, ...]
    parameters: Sampling = Sampling()
    sample: int = 0
    choices: tuple[str, ...] = ()  # the answer is a list of some of these; a server that can is held to it

    @property
    def key(self) -> str:
        """The SHA-256 of all that the answer depends on."""
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
    """What came back. `problem` is why the text is no use, in the words that reports have (`PROBLEMS`)."""

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
    """About how many tokens these texts are."""
    return sum(-(-len(text) // _CHARACTERS) + _PER_MESSAGE for text in texts)
