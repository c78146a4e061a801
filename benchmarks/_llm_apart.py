"""Asking and judging apart: what a model would be asked is written down, its answers are judged from a file.

A model on a slow machine takes hours for a few hundred answers, and judging them takes minutes: so each of the three
steps can be done where and when there is time for it. Every line of both files has the key of the request
(`ChatRequest.key`), by which an answer finds its question; a file of answers that was cut off is gone on with.
"""

from __future__ import annotations

import json
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from driftline.checking.batch import Screening
from driftline.checking.batch_requests import NothingMade, Prepared, PreparedProgram, ProgramRequest
from driftline.checking.checker import Checker
from driftline.core.program import SourceBundle
from driftline.core.target import Target
from driftline.core.wire import decode, encode
from driftline.execute.pool import Pool
from driftline.generate.authored.names import COPY
from driftline.generate.authored.sketch import operator_names
from driftline.generate.llm import CHANGE, SKETCH
from driftline.llm.answers import code_of, digest_of
from driftline.llm.chat import CUT_OFF, ChatAnswer, ChatRequest, Sampling
from driftline.llm.client import ChatClient, NoAnswer
from driftline.llm.prompts import IDEAS, change_messages, sketch_messages
from driftline.llm.settings import LlmSettings
from driftline.patterns.rule_book import CompilerRules
from driftline.store import Store
from driftline.store.tries import RAN

TARGET = Target("inductor")
IDEAS_OF_A_RULE = 4
_DESCRIPTION = 400  # characters
_RESIZED = re.compile(r"given_program\(\)\n    return model(\.eval\(\))?, \(")  # other inputs than the model's own


@dataclass(frozen=True)
class Prompt:
    """A request for a program, with the rule that it is aimed at."""

    rule: str
    options: tuple[tuple[str, str], ...]
    example: str  # digest of the program that is shown
    request: ChatRequest
    mode: str = CHANGE


def write_prompts(store: Path, file: Path, count: int, seed: int, model: str, tokens: int) -> None:
    """The first questions of *change* mode: a rule is drawn, its own program shown, some of the ideas asked for."""
    rng = random.Random(seed)
    written = 0
    with Pool() as pool, Store.create(store) as opened, open(file, "w") as out:
        book = CompilerRules(Checker(pool, 1), opened)
        rules = sorted(book.rules(TARGET), key=lambda rule: rule.id)
        rng.shuffle(rules)
        for rule in rules:
            shown = book.shown(rule)
            for idea in rng.sample(IDEAS, IDEAS_OF_A_RULE) if shown.program else ():
                if written == count:
                    return
                request = ChatRequest(
                    model,
                    change_messages(rule, shown.program, idea, shown.text.form),
                    Sampling(max_tokens=tokens),
                    sample=written,
                )
                prompt = Prompt(rule.id, shown.options or rule.needs, digest_of(shown.program), request)
                print(json.dumps({"key": request.key, "prompt": encode(Prompt, prompt)}), file=out, flush=True)
                written += 1


def write_sketch_prompts(store: Path, file: Path, count: int, seed: int, model: str, tokens: int) -> None:
    """Questions of *sketch* mode, each about another rule; what the rule needs is the beginning of its own pattern, as
    long as a description is."""
    with Pool() as pool, Store.create(store) as opened, open(file, "w") as out:
        book = CompilerRules(Checker(pool, 1), opened)
        rules = sorted(book.rules(TARGET), key=lambda rule: rule.id)
        for number, rule in enumerate(random.Random(seed).sample(rules, min(count, len(rules)))):
            told = book.text(rule)
            names = operator_names(told.form)
            messages = sketch_messages(rule, (told.tree or told.words)[:_DESCRIPTION], names)
            request = ChatRequest(model, messages, Sampling(max_tokens=tokens), number, tuple(names))
            prompt = Prompt(rule.id, rule.needs, "", request, SKETCH)
            print(json.dumps({"key": request.key, "prompt": encode(Prompt, prompt)}), file=out, flush=True)


def ask(settings: LlmSettings, prompts: Path, answers: Path) -> None:
    """Ask what has no answer yet, as many rules at a time as there are connections; each answer is written when it
    comes. What a rule is asked goes one after the other: a server keeps the beginning, which they share."""
    known = {key for key, _ in _lines(answers, "answer")} if answers.exists() else set()
    todo: dict[str, list[tuple[str, Prompt]]] = {}
    for key, prompt in read_prompts(prompts):
        if key not in known:
            todo.setdefault(prompt.rule, []).append((key, prompt))
    client = ChatClient(settings)
    writing = Lock()

    def asked(of_a_rule: Sequence[tuple[str, Prompt]]) -> None:
        for key, prompt in of_a_rule:
            began = time.monotonic()
            answer = client.complete(prompt.request)
            seconds = time.monotonic() - began
            line = {"key": key, "seconds": round(seconds, 1), "answer": encode(ChatAnswer, answer)}
            with writing:
                print(json.dumps(line), file=out, flush=True)
                print(f"{answer.answer_tokens} tokens, {seconds:.0f} s, {answer.problem or 'whole'}", flush=True)

    with open(answers, "a") as out, ThreadPoolExecutor(settings.connections) as threads:  # which write to the file
        try:
            for done in as_completed([threads.submit(asked, of_a_rule) for of_a_rule in todo.values()]):
                done.result()
        except NoAnswer as reason:
            sys.exit(f"{settings.shown_url} gives no answer ({reason}): run this again to go on.")
        finally:  # also after Ctrl-C: the questions that wait are not asked
            threads.shutdown(wait=False, cancel_futures=True)
            client.close()


def read_prompts(file: Path) -> Iterator[tuple[str, Prompt]]:
    for key, value in _lines(file, "prompt"):
        yield key, decode(Prompt, value)


def _lines(file: Path, field: str) -> Iterator[tuple[str, object]]:
    for number, line in enumerate(file.read_text().splitlines(), 1):
        try:
            told = json.loads(line)
            yield told["key"], told[field]
        except (ValueError, KeyError, TypeError):
            sys.exit(f"{file}, line {number}: this is no {field} with its key.")


@dataclass(frozen=True)
class Judged:
    """What came of the answers."""

    asked: int
    outcomes: Counter[str]
    resized: int  # of those that ran: on other sizes than the model's own
    fired: int
    copies: tuple[int, int]  # of those that ran, and of those that fired: known programs, on other sizes
    failures: tuple[str, ...]  # programs whose results were judged wrong, before anything is confirmed


def judge(prompts: Path, answers: Path, seed: int, batch: int, compiled: bool) -> Judged:
    """The answers as a hunt would take them, without repairs: screened, run in eager with the search over sizes, and
    compiled, where that is wanted, with the options that their rule needs."""
    questions = dict(read_prompts(prompts))
    given = {key: decode(ChatAnswer, value) for key, value in _lines(answers, "answer") if key in questions}
    outcomes: Counter[str] = Counter()
    wanted: dict[Target, list[ProgramRequest]] = {}
    seen: set[str] = set()
    for number, (key, answer) in enumerate(given.items()):
        prompt = questions[key]
        sketch = prompt.mode == SKETCH
        text = answer.text if sketch else code_of(answer.text)
        digest = "" if sketch else digest_of(text)
        problem = "" if sketch and answer.problem == CUT_OFF else answer.problem  # names need no end
        if problem or (digest and digest in seen):
            outcomes[problem or COPY] += 1
            continue
        copy = bool(digest) and digest == prompt.example
        if not copy:
            seen.add(digest)
        request = ProgramRequest(
            "llm", prompt.rule, number, ("random",), str(number), text=text, mode=prompt.mode, copy=copy
        )
        wanted.setdefault(Target("inductor", None, prompt.options if compiled else ()), []).append(request)
    resized = fired = copies = copies_fired = 0
    failures: list[str] = []
    with Pool() as pool:
        for target, requests in wanted.items():
            for at in range(0, len(requests), batch):
                with Screening(pool, "torch", seed=seed) as screening:
                    part = requests[at : at + batch]
                    if not compiled:
                        outcomes.update(name_of(made) for made in screening.prepared(part, target))
                        continue
                    for result in screening.screen(part, target):
                        name = result.reason.partition(":")[0] if result.judgement == "nothing" else "inputs refused"
                        outcomes[RAN if result.made else result.died or name] += 1
                        if result.made:
                            text = SourceBundle.load(result.made.program.path.read_bytes()).text
                            resized += bool(_RESIZED.search(text))
                            copies += result.request.copy
                            if result.request.arm in result.behaviour:
                                fired += 1
                                copies_fired += result.request.copy
                        if result.judgement == "fail":
                            failures.append(f"{result.request.arm}: {result.kind}, {result.reason[:150]}")
    return Judged(len(given), outcomes, resized, fired, (copies, copies_fired), tuple(failures))


def name_of(made: Prepared) -> str:
    """What became of an answer that was given to a worker."""
    if isinstance(made, PreparedProgram):
        return RAN
    return made.name if isinstance(made, NothingMade) else made.died or "inputs refused"


def tokens_a_second(answers: Path) -> float:
    told: Sequence[dict[str, object]] = [json.loads(line) for line in answers.read_text().splitlines()]
    tokens = sum(decode(ChatAnswer, one["answer"]).answer_tokens for one in told)
    return tokens / max(1e-9, sum(float(str(one["seconds"])) for one in told))
