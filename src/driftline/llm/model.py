"""A model that never asks the server for an answer that the store already has.

A replay sends no requests: if the store lacks an answer, the replay ends with an error that names the request.
"""

from __future__ import annotations

from driftline.core.errors import DriftlineError
from driftline.core.wire import decode, encode
from driftline.llm.chat import NO_ANSWER, ChatAnswer, ChatRequest
from driftline.llm.client import ChatClient, Closed, NoAnswer
from driftline.store import Store
from driftline.store.models import ModelAnswers


class RecordedModel:
    """Answers from the store, else from the server (`client`); without a client it only replays."""

    def __init__(self, store: Store, client: ChatClient | None) -> None:
        self._answers = ModelAnswers(store)
        self._client = client

    @property
    def replays(self) -> bool:
        return self._client is None

    def kept(self, request: ChatRequest) -> ChatAnswer | None:
        """Return the stored answer to a request, or None."""
        known = self._answers.get(request.key)
        return decode(ChatAnswer, known) if known is not None else None

    def ask(self, request: ChatRequest, about: str) -> ChatAnswer:
        """Return the answer; its problem is `no answer` if the server gave none. `about` names it in messages."""
        kept = self.kept(request)
        # A request that failed before may work now; in a replay it must fail again.
        if kept is not None and (self.replays or kept.problem != NO_ANSWER):
            return kept
        if self._client is None:
            raise DriftlineError(
                f"The store has no answer to the request {request.key[:12]} ({about}): a replay repeats a hunt with"
                " the same seed, targets, generators and model. Leave out --llm-replay to ask the model."
            )
        try:
            answer = self._client.complete(request)
        except Closed:
            raise
        except NoAnswer as reason:
            answer = ChatAnswer("", finish_reason=str(reason), problem=NO_ANSWER)
        self._answers.keep(request.key, encode(ChatRequest, request), encode(ChatAnswer, answer))
        return answer

    def close(self) -> None:
        if self._client:
            self._client.close()
