"""A language model writes programs for the lanes of a hunt.

The requests for a lane's next turn follow from the lane's past turns. They are sent ahead of that turn and awaited when
it begins, so the order of programs never depends on how fast the model is. Everything runs in the main process except
the programs themselves, which go to workers as text.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TypeVar

from driftline.campaign.authoring.model_lane import SHOWN, ModelLane
from driftline.checking.batch import Screened, Screening
from driftline.checking.batch_requests import NothingMade, Prepared, PreparedProgram, ProgramRequest
from driftline.core.program import SourceBundle
from driftline.core.rule import Rule
from driftline.core.target import Target
from driftline.execute.messages import Ending
from driftline.execute.pool import PoolInterrupted
from driftline.generate.authored.names import COPY, ENDLESS, KILLED, MEMORY, REPAIRABLE
from driftline.generate.authored.sketch import operator_names
from driftline.generate.llm import CHANGE, MODES, SKETCH, WRITE
from driftline.llm.allowance import Allowance
from driftline.llm.answers import code_of, digest_of
from driftline.llm.chat import CUT_OFF, NO_ANSWER, ChatAnswer, ChatRequest, Message, Sampling
from driftline.llm.client import Closed
from driftline.llm.model import RecordedModel
from driftline.llm.prompts import IDEAS, change_messages, repair_messages, sketch_messages, write_messages
from driftline.llm.requirement import Analyst
from driftline.llm.rules import RuleBook, ShownRule
from driftline.llm.settings import LlmSettings
from driftline.store import Store
from driftline.store.tries import DESCRIBE, DESCRIBED, INPUTS_REFUSED, RAN, SPENT, ModelTry

GENERATOR = "llm"
_SKETCH_TOKENS = 96
_ENDINGS: Mapping[str, str] = {Ending.TIMEOUT: ENDLESS, Ending.MEMORY: MEMORY, Ending.DIED: KILLED}
_Asked = TypeVar("_Asked")


@dataclass(frozen=True)
class ProgramDraft:
    """A program requested from the model: the request, and the record of the attempt so far."""

    request: ProgramRequest  # with the program's text, if the model gave one
    record: ModelTry
    messages: tuple[Message, ...] = ()


@dataclass(frozen=True)
class WrittenTurn:
    """The programs of a turn: one request and one prepared program for each that was asked for, and the records of the
    requests to the model, which do not yet hold the results of screening."""

    requests: tuple[ProgramRequest, ...]
    made: tuple[Prepared, ...]
    drafts: Mapping[int, ProgramDraft]  # by the index of the request
    descriptions: tuple[ModelTry, ...] = ()

    def tries(self, results: Sequence[Screened]) -> tuple[ModelTry, ...]:
        """Return the records of all requests of the turn, with the rules that each program fired."""
        return *self.descriptions, *(_finished(draft, results[at]) for at, draft in self.drafts.items())


@dataclass(frozen=True)
class _Drafted:
    drafts: tuple[ProgramDraft, ...]
    descriptions: tuple[ModelTry, ...]


@dataclass(frozen=True)
class _Question:
    """A request that is ready to be sent to the model."""

    asked: ProgramRequest
    mode: str
    examples: tuple[str, ...]
    chat: ChatRequest


class Author:
    """Asks a language model for the programs of all lanes of a hunt."""

    def __init__(
        self,
        store: Store,
        model: RecordedModel,
        settings: LlmSettings,
        book: RuleBook,
        allowance: Allowance,
        *,
        seed: int = 0,
        modes: Sequence[str] = MODES,
    ) -> None:
        self._model = model
        self._settings = settings
        self._book = book
        self._allowance = allowance
        self._seed = seed
        self._modes = modes
        self._analyst = Analyst(store, model, settings.analyst)
        self._lanes: dict[str, ModelLane] = {}
        self._ahead: dict[str, tuple[tuple[ProgramRequest, ...], Future[_Drafted]]] = {}
        self._connections = ThreadPoolExecutor(settings.connections, "llm")
        self._planning = ThreadPoolExecutor(8, "llm plan")
        self._lock = threading.Lock()
        self._closed = False

    # -- lanes -------------------------------------------------------------------------------------------------------

    def open_lanes(self, targets: Sequence[Target]) -> dict[str, tuple[str, ...]]:
        """Open a lane for each target whose rules are known; return the ids of its rules by target."""
        known = {str(target): {rule.id: rule for rule in self._book.rules(target)} for target in targets}
        able = {name: rules for name, rules in known.items() if rules}
        share = self._allowance.share(len(able))
        self._lanes = {name: ModelLane(rules, share, self._modes) for name, rules in able.items()}
        return {name: tuple(rules) for name, rules in able.items()}

    def absorb(self, lane: str, tries: Sequence[ModelTry]) -> None:
        """Add the records of a finished turn to the state of its lane."""
        if lane in self._lanes:
            self._lanes[lane].absorb(tries)

    def stopped(self, lane: str) -> str:
        """Return why the model gets no more requests for this lane, or an empty string while it does."""
        return self._lanes[lane].stopped if lane in self._lanes else ""

    def close(self) -> None:
        """Stop asking the model. Threads that wait for an answer get `PoolInterrupted`."""
        with self._lock:  # no thread in `ask_ahead` is between the check of `_closed` and its submit
            self._closed = True
            self._planning.shutdown(wait=False, cancel_futures=True)
        self._model.close()
        self._connections.shutdown(wait=False, cancel_futures=True)

    # -- one turn ----------------------------------------------------------------------------------------------------

    def ask_ahead(self, lane: str, requests: Sequence[ProgramRequest]) -> None:
        """Send the requests of a lane's next turn to the model, unless the author is closed."""
        wanted = tuple(request for request in requests if request.generator == GENERATOR)
        if not wanted or self.stopped(lane):
            return
        with self._lock:
            if not self._closed:
                self._ahead[lane] = wanted, self._planning.submit(self._drafted, self._lanes[lane], wanted)

    def write(self, lane: str, target: Target, requests: Sequence[ProgramRequest], screening: Screening) -> WrittenTurn:
        """Return all programs of a turn, prepared. Programs of the model that do not run are sent back once for
        repair."""
        places = [at for at, request in enumerate(requests) if request.generator == GENERATOR]
        drafted = self._awaited(lane, tuple(requests[at] for at in places))
        drafts = dict(zip(places, drafted.drafts, strict=True))
        whole = [drafts[at].request if at in drafts else request for at, request in enumerate(requests)]
        made = self._made(whole, drafts, target, screening)
        self._repair(self._lanes[lane], whole, drafts, drafted.descriptions, made, target, screening)
        run = tuple(_with_options(one, request) for one, request in zip(made, whole, strict=True))
        return WrittenTurn(tuple(whole), run, drafts, drafted.descriptions)

    def _awaited(self, lane: str, wanted: tuple[ProgramRequest, ...]) -> _Drafted:
        with self._lock:
            ahead = self._ahead.pop(lane, None)
        if ahead is None or ahead[0][: len(wanted)] != wanted:
            return self._drafted(self._lanes[lane], wanted)
        try:
            drafted = ahead[1].result()
        except CancelledError as error:  # more lanes ask ahead than are planned at once: this one was not begun
            raise PoolInterrupted("the hunt has ended") from error
        return replace(drafted, drafts=drafted.drafts[: len(wanted)])

    def _made(
        self,
        whole: Sequence[ProgramRequest],
        drafts: Mapping[int, ProgramDraft],
        target: Target,
        screening: Screening,
    ) -> list[Prepared]:
        """Prepare the requests that have a program; a request without a text gives `NothingMade`."""
        able = [at for at, request in enumerate(whole) if at not in drafts or drafts[at].record.outcome == RAN]
        made = iter(screening.prepared([whole[at] for at in able], target))
        return [
            next(made) if at in able else NothingMade(drafts[at].record.outcome, drafts[at].record.outcome)
            for at in range(len(whole))
        ]

    def _repair(
        self,
        state: ModelLane,
        whole: list[ProgramRequest],
        drafts: dict[int, ProgramDraft],
        descriptions: Sequence[ModelTry],
        made: list[Prepared],
        target: Target,
        screening: Screening,
    ) -> None:
        """Send programs that do not run back to the model once, with the error, and prepare the repaired ones. Copies
        are not sent back, since they must cost nothing more."""
        broken = {
            at: reason
            for at, draft in drafts.items()
            if draft.record.mode != SKETCH
            and not draft.record.copy
            and isinstance(reason := made[at], NothingMade)
            and reason.name in REPAIRABLE
            and draft.messages
        }
        spent = _Spending(state, [*descriptions, *(draft.record for draft in drafts.values())])
        questions = {
            at: replace(
                self._chat(drafts[at].messages, whole[at].number),
                messages=repair_messages(drafts[at].messages, drafts[at].request.text, reason.reason),
            )
            for at, reason in broken.items()
        }
        answers = self._in_waves(
            list(questions.items()), spent, lambda pair: self._model.ask(pair[1], f"a repair for {whole[pair[0]].arm}")
        )
        again: list[int] = []
        for (at, _), answer in answers:
            drafts[at] = self._repaired(drafts[at], answer, state, drafts)
            if drafts[at].request != whole[at]:
                whole[at] = drafts[at].request
                again.append(at)
        if again:
            for at, prepared in zip(again, screening.prepared([whole[at] for at in again], target), strict=True):
                made[at] = prepared

    def _repaired(
        self, draft: ProgramDraft, answer: ChatAnswer | None, state: ModelLane, drafts: Mapping[int, ProgramDraft]
    ) -> ProgramDraft:
        """Return the draft with the model's repair, or with its old text if the repair is unusable or already known."""
        if answer is None or answer.problem == NO_ANSWER:
            return draft
        record = replace(self._paid(draft.record, answer), answers=draft.record.answers + 1)
        text = code_of(answer.text)
        digest = digest_of(text)
        known = digest in state.seen or any(digest == other.record.digest for other in drafts.values())
        if answer.problem or known:
            return replace(draft, record=record)
        return ProgramDraft(replace(draft.request, text=text), replace(record, digest=digest))

    # -- asking ------------------------------------------------------------------------------------------------------

    def _drafted(self, state: ModelLane, wanted: tuple[ProgramRequest, ...]) -> _Drafted:
        """Ask the model for all programs of a turn."""
        descriptions: list[ModelTry] = []
        drafts: list[ProgramDraft] = []
        spent = _Spending(state, descriptions)
        try:
            questions = [self._question(state, request, spent, descriptions) for request in wanted]
        except Closed as error:  # while a rule was described
            raise PoolInterrupted("the hunt has ended") from error
        texts: set[str] = set()
        for question, answer in self._in_waves(questions, spent, self._answer):
            draft = self._draft(question, answer)
            digest = draft.record.digest
            if draft.record.outcome == RAN and digest and digest in (texts | state.seen):
                ran = digest in state.ran and digest not in texts
                draft = _as_copy(draft) if ran else replace(draft, record=replace(draft.record, outcome=COPY))
            texts.add(digest)
            drafts.append(draft)
        return _Drafted(tuple(drafts), tuple(descriptions))

    def _question(
        self, state: ModelLane, request: ProgramRequest, spent: _Spending, descriptions: list[ModelTry]
    ) -> _Question:
        """Build the request for one program: draw its mode, its examples and an idea."""
        rng = random.Random(f"{self._seed}/{GENERATOR}/{request.seed}")
        rule = state.rules[request.arm]
        shown = self._book.shown(rule)
        state.add_first(rule.id, shown.program)
        mode = state.mode(rule.id, rng)
        idea = rng.choice(IDEAS)
        examples = {} if mode == SKETCH else state.examples(rule.id, 1 if mode == CHANGE else SHOWN, rng)
        if mode == CHANGE:
            messages = change_messages(rule, next(iter(examples.values())), idea, shown.text.form)
        else:
            needs = self._requirement(state, rule, shown, spent, descriptions)
            if mode == WRITE:
                messages = write_messages(rule, needs, list(examples.values()), idea, shown.text.form)
            else:
                messages = sketch_messages(rule, needs, operator_names(shown.text.form))
        options = tuple(pair for pair in (shown.options or rule.needs))
        chat = self._chat(messages, request.number, _SKETCH_TOKENS if mode == SKETCH else 0)
        if mode == SKETCH:
            chat = replace(chat, choices=tuple(operator_names(shown.text.form)))
        return _Question(replace(request, mode=mode, options=options), mode, tuple(examples), chat)

    def _chat(self, messages: tuple[Message, ...], sample: int, tokens: int = 0) -> ChatRequest:
        settings = self._settings
        return ChatRequest(
            settings.model, messages, Sampling(settings.temperature, tokens or settings.max_tokens), sample
        )

    def _requirement(
        self, state: ModelLane, rule: Rule, shown: ShownRule, spent: _Spending, descriptions: list[ModelTry]
    ) -> str:
        """Return the rule's requirement in words, or its own pattern if no model has described it. The tokens of a
        description count once per lane, even if the store already held the description: the spending must not depend on
        the store."""
        counted = rule.id in state.described or any(one.rule == rule.id for one in descriptions)
        if not counted and not spent.left:
            return shown.text.tree or shown.text.words
        found = self._analyst.describe(rule, shown.text)
        if not counted:
            record = ModelTry(rule.id, DESCRIBE, self._analyst.name, found.problem.partition(" (")[0] or DESCRIBED)
            descriptions.append(self._paid(record, found.answer) if found.answer else record)
        return found.requirement.words() if found.requirement else shown.text.tree or shown.text.words

    def _answer(self, question: _Question) -> ChatAnswer:
        return self._model.ask(question.chat, f"{question.mode} for {question.asked.arm}")

    def _draft(self, question: _Question, answer: ChatAnswer | None) -> ProgramDraft:
        """Turn an answer of the model into a draft, judged by its text alone: copies, cut-off and missing answers are
        marked."""
        record = ModelTry(
            question.asked.arm, question.mode, self._settings.model, RAN, answers=1, examples=question.examples
        )
        if answer is None:
            return ProgramDraft(question.asked, replace(record, outcome=SPENT, answers=0))
        record = self._paid(record, answer)
        if answer.problem and not (answer.problem == CUT_OFF and question.mode == SKETCH):  # cut-off names can be used
            return ProgramDraft(question.asked, replace(record, outcome=answer.problem), question.chat.messages)
        text = answer.text if question.mode == SKETCH else code_of(answer.text)
        digest = "" if question.mode == SKETCH else digest_of(text)
        draft = ProgramDraft(replace(question.asked, text=text), replace(record, digest=digest), question.chat.messages)
        return _as_copy(draft) if digest and digest in question.examples else draft

    def _paid(self, record: ModelTry, answer: ChatAnswer) -> ModelTry:
        return replace(
            record,
            prompt_tokens=record.prompt_tokens + answer.prompt_tokens,
            answer_tokens=record.answer_tokens + answer.answer_tokens,
            cost=record.cost + self._settings.cost(answer.prompt_tokens, answer.answer_tokens),
            estimated=record.estimated or answer.estimated,
        )

    def _in_waves(
        self, asked: Sequence[_Asked], spent: _Spending, ask: Callable[[_Asked], ChatAnswer]
    ) -> Iterator[tuple[_Asked, ChatAnswer | None]]:
        """Yield each question with its answer, in order, or with None once the allowance is spent. As many questions as
        there are connections are sent at once, so the allowance is exceeded by at most one answer per connection."""
        size = self._settings.connections
        for at in range(0, len(asked), size):
            wave = asked[at : at + size]
            if not spent.left:
                yield from ((question, None) for question in wave)
                continue
            answers = self._at_once(ask, wave)
            for question, answer in zip(wave, answers, strict=True):
                spent.add(answer.tokens, self._settings.cost(answer.prompt_tokens, answer.answer_tokens))
                yield question, answer

    def _at_once(self, ask: Callable[[_Asked], ChatAnswer], wave: Sequence[_Asked]) -> list[ChatAnswer]:
        try:
            return list(self._connections.map(ask, wave))
        except (Closed, CancelledError) as error:
            raise PoolInterrupted("the hunt has ended") from error
        except RuntimeError as error:  # raised by the executor after its shutdown
            if not self._closed:
                raise
            raise PoolInterrupted("the hunt has ended") from error


class _Spending:
    """Counts the tokens and the cost of a lane, including those of its current turn."""

    def __init__(self, state: ModelLane, tries: Sequence[ModelTry]) -> None:
        self._state = state
        self._tries = tries  # the caller may append to it
        self._tokens, self._cost = 0, 0.0

    def add(self, tokens: int, cost: float) -> None:
        self._tokens += tokens
        self._cost += cost

    @property
    def left(self) -> bool:
        """True if the allowance of the lane is not spent."""
        tokens = self._state.tokens + self._tokens + sum(one.tokens for one in self._tries)
        cost = self._state.cost + self._cost + sum(one.cost for one in self._tries)
        return self._state.allowance.left(tokens, cost)


def _with_options(made: Prepared, request: ProgramRequest) -> Prepared:
    """Return the program with the compiler options of its request, which some rules need."""
    return replace(made, options=request.options) if isinstance(made, PreparedProgram) else made


def _as_copy(draft: ProgramDraft) -> ProgramDraft:
    """Mark the draft of a program that already ran as a copy: the copy runs on other sizes."""
    return replace(draft, request=replace(draft.request, copy=True), record=replace(draft.record, copy=True))


def _finished(draft: ProgramDraft, result: Screened) -> ModelTry:
    """Return the record of a program with the outcome of its screening."""
    record = draft.record
    if record.outcome != RAN:
        return record
    if result.judgement == "nothing":
        return replace(record, outcome=result.nothing or result.reason)
    if result.judgement == "invalid" or result.made is None:
        return replace(record, outcome=_ENDINGS.get(result.died, INPUTS_REFUSED))
    fired = record.rule in result.behaviour
    text = SourceBundle.load(result.made.program.path.read_bytes()).text if fired else ""
    return replace(record, fired=fired, rules=result.behaviour, text=text)
