"""Opens the lanes of a hunt: one for each target whose programs can be made here, with the generators that can make
them."""

from __future__ import annotations

import contextlib
import threading
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from driftline.backends import BACKENDS
from driftline.campaign.authoring.author import GENERATOR as LLM
from driftline.campaign.authoring.author import Author
from driftline.campaign.check.forms import form_of
from driftline.campaign.hunt.lane import Lane
from driftline.campaign.hunt.lane_arms import LaneArms
from driftline.campaign.hunt.plan import HuntPlan
from driftline.campaign.hunt.shard import Shard
from driftline.checking.batch_requests import ARMS, ArmsAnswer, ArmsRequest
from driftline.checking.checker import Skipped
from driftline.checking.kinds import worker_for_framework
from driftline.core.answers import recalled, releases, remembered, surroundings
from driftline.core.errors import DriftlineError
from driftline.core.target import Target
from driftline.core.wire import Json, decode, encode
from driftline.execute.pool import Pool, WorkerStartError
from driftline.generate import GENERATORS
from driftline.generate.lone_operators import lone_programs

_LISTED = ("torch", "onnx", "jax", "tensorflow", "tensorflow-cpu", "numpy")  # packages whose operators are listed


class LaneOpener:
    """Lists the arms of the generators for each language. Where listing needs a framework, a worker of that framework
    does it."""

    def __init__(
        self,
        pool: Pool,
        plan: HuntPlan,
        author: Author | None,
        missed: Callable[[str, str, str], None] = lambda form, generator, reason: None,
    ) -> None:
        """`missed` is called for a generator that turns out to have no arms after the lanes were opened."""
        self._pool = pool
        self._plan = plan
        self._author = author
        self._missed = missed
        self._opened = False
        self._answers: dict[str, ArmsAnswer] = {}  # by form
        self._asking: dict[str, threading.Lock] = defaultdict(threading.Lock)
        self.left_out: list[str] = []  # generators that make nothing here, with the reason

    def open(self) -> tuple[list[Lane], list[Skipped]]:
        """Return the lanes, and the targets without one."""
        lanes: list[Lane] = []
        missing: list[Skipped] = []
        arms: dict[str, Mapping[str, Sequence[str]]] = {}
        late = frozenset(name for name in self._plan.generators if GENERATORS.get(name).slow_start)
        changing = frozenset(name for name in self._plan.generators if GENERATORS.get(name).needs_base)
        self._ask_ahead()
        rules = self._author.open_lanes([Target.parse(text) for text in self._plan.targets]) if self._author else {}
        for target in map(Target.parse, self._plan.targets):
            backend = BACKENDS.get(target.backend)
            form = form_of(backend)
            assert form
            try:
                if form not in arms:
                    arms[form] = self._arms(form)
            except WorkerStartError as error:
                missing.append(Skipped(target, f"its programs cannot be made here: {error}"))
                continue
            able = arms[form]
            if str(target) in rules:
                able = {**able, LLM: rules[str(target)]}
            elif LLM in self._plan.generators:
                self.left_out.append(f"{LLM} makes no {form} programs for {target}: its rewrite rules are not known")
            if not set(able) - changing and LLM in self._plan.generators:
                missing.append(Skipped(target, "no generator that was named makes programs for it"))
                continue
            if not set(able) - changing:
                names = ", ".join(self._plan.generators)
                lacks = [why for why in self.left_out if f" {form} programs " in why]
                advice = "; ".join(lacks) or "name graph too"
                raise DriftlineError(
                    f"No generator among {names} makes new {form} programs, which {target} needs: {advice}."
                )
            plan = self._plan
            lanes.append(
                Lane(
                    target,
                    form,
                    plan.seed,
                    backend.batch,
                    able,
                    lone_programs(form),
                    plan.inputs,
                    changing,
                    frozenset({LLM}) & set(able),
                    Shard.parse(plan.shard),
                    late,
                )
            )
        self._opened = True
        if not lanes:
            raise DriftlineError(f"There is nothing to hunt on: {missing[0].target} {missing[0].reason}.")
        return lanes, missing

    def _ask_ahead(self) -> None:
        """List the arms of several languages at the same time, unless they are cached: each imports its framework."""
        forms = {
            form for target in map(Target.parse, self._plan.targets) if (form := form_of(BACKENDS.get(target.backend)))
        }
        with ThreadPoolExecutor(2) as threads:
            for asked in [threads.submit(self._listed, form) for form in sorted(forms) if self._is_asked_now(form)]:
                with contextlib.suppress(WorkerStartError):  # reported with the first target of the language
                    asked.result()

    def _arms(self, form: str) -> Mapping[str, Sequence[str]]:
        known = self._known(form)
        if not self._is_asked_now(form) and self._asked(form):
            names = [name for name in self._generators(form) if known.get(name) or name in self._asked(form)]
            return LaneArms(names, known, partial(self._told, form))
        found = {**known, **self._told(form)}
        return {name: found[name] for name in self._generators(form) if found.get(name)}

    def _generators(self, form: str) -> list[str]:
        return [name for name in self._plan.generators if form in GENERATORS.get(name).forms]

    def _asked(self, form: str) -> list[str]:
        """Return the generators whose arms a worker lists: with plug-ins all, since a plug-in may change any."""
        names = self._generators(form)
        return [name for name in names if self._plan.plugins or GENERATORS.get(name).needs_framework]

    def _known(self, form: str) -> dict[str, tuple[str, ...]]:
        """Return the arms of the generators that need no worker."""
        asked = self._asked(form)
        return {name: tuple(GENERATORS.get(name).arms(form)) for name in self._generators(form) if name not in asked}

    def _is_asked_now(self, form: str) -> bool:
        """True if the worker's list, or its cached copy, must be read before a lane can begin; False if the lane can
        begin without those generators."""
        asked = self._asked(form)
        first = [name for name in self._known(form) if not GENERATORS.get(name).needs_base]
        waits = first and not self._author and all(GENERATORS.get(name).slow_start for name in asked)
        return bool(asked) and not (waits and not recalled("arms", self._key(form)))

    def _told(self, form: str) -> dict[str, tuple[str, ...]]:
        """Return the arms that a worker lists; an empty dict if no generator needs one. Generators that lack a package
        are noted."""
        if not self._asked(form):
            return {}
        with self._asking[form]:
            listed = self._listed(form)
            for name, package in listed.missing.items():
                lacks = f"the package {package} is not installed"
                why = f"{name} makes no {form} programs here: {lacks}"
                if why not in self.left_out:
                    self.left_out.append(why)
                    if self._opened:
                        self._missed(form, name, lacks)
        return dict(listed.arms)

    def _request(self, form: str) -> ArmsRequest:
        return ArmsRequest(form, tuple(self._asked(form)), tuple(self._plan.plugins))

    def _key(self, form: str) -> Json:
        return [surroundings(), releases(_LISTED), encode(ArmsRequest, self._request(form))]

    def _listed(self, form: str) -> ArmsAnswer:
        def ask() -> Json:
            worker = worker_for_framework(form, self._plan.plugins)
            return encode(ArmsAnswer, self._pool.ask(worker, ARMS, self._request(form)))

        if form not in self._answers:
            # Importing a framework to list operators may take longer than a short budget. Plugins are read every time.
            answer = ask() if self._plan.plugins else remembered("arms", self._key(form), ask).value
            self._answers[form] = decode(ArmsAnswer, answer)
        return self._answers[form]
