"""Opening the lanes of a hunt: one for each target whose programs can be made here, with the generators that can."""

from __future__ import annotations

import contextlib
from concurrent.futures import ThreadPoolExecutor

from driftline.backends import BACKENDS
from driftline.campaign.authoring import GENERATOR as LLM
from driftline.campaign.authoring import Author
from driftline.campaign.lane import Lane
from driftline.campaign.plan import HuntPlan, form_of
from driftline.campaign.shard import Shard
from driftline.checking.batch_requests import ARMS, ArmsAnswer, ArmsRequest
from driftline.checking.checker import Skipped
from driftline.checking.kinds import worker_for_framework
from driftline.core.answers import releases, remembered, surroundings
from driftline.core.errors import DriftlineError
from driftline.core.target import Target
from driftline.core.wire import Json, decode, encode
from driftline.execute.pool import Pool, WorkerStartError
from driftline.generate import GENERATORS
from driftline.generate.lone_operators import lone_programs

_LISTED = ("torch", "onnx", "jax", "tensorflow", "tensorflow-cpu", "numpy")  # packages whose operators are listed


class LaneOpener:
    """Asks the workers of each language what its generators can make."""

    def __init__(self, pool: Pool, plan: HuntPlan, author: Author | None) -> None:
        self._pool = pool
        self._plan = plan
        self._author = author
        self._answers: dict[str, ArmsAnswer] = {}  # by form
        self.left_out: list[str] = []  # generators that make nothing here, with the reason

    def open(self) -> tuple[list[Lane], list[Skipped]]:
        """The lanes, and the targets that have none."""
        lanes: list[Lane] = []
        missing: list[Skipped] = []
        arms: dict[str, dict[str, tuple[str, ...]]] = {}
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
            able = dict(arms[form])
            if str(target) in rules:
                able[LLM] = rules[str(target)]
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
                )
            )
        if not lanes:
            raise DriftlineError(f"There is nothing to hunt on: {missing[0].target} {missing[0].reason}.")
        return lanes, missing

    def _ask_ahead(self) -> None:
        """Languages whose operators are not remembered are asked side by side: each imports its framework."""
        forms = {
            form for target in map(Target.parse, self._plan.targets) if (form := form_of(BACKENDS.get(target.backend)))
        }
        with ThreadPoolExecutor(2) as threads:
            for asked in [threads.submit(self._listed, form) for form in sorted(forms)]:
                with contextlib.suppress(WorkerStartError):  # it is told with the first target of the language
                    asked.result()

    def _arms(self, form: str) -> dict[str, tuple[str, ...]]:
        listed = self._listed(form)
        for name, package in listed.missing.items():
            self.left_out.append(f"{name} makes no {form} programs here: the package {package} is not installed")
        return {name: found for name, found in listed.arms.items() if found}

    def _listed(self, form: str) -> ArmsAnswer:
        request = ArmsRequest(form, tuple(self._plan.generators), tuple(self._plan.plugins))

        def ask() -> Json:
            worker = worker_for_framework(form, self._plan.plugins)
            return encode(ArmsAnswer, self._pool.ask(worker, ARMS, request))

        if form not in self._answers:
            # Importing a framework to list operators may take longer than a short budget. Plugins are read every time.
            key = [surroundings(), releases(_LISTED), encode(ArmsRequest, request)]
            answer = ask() if self._plan.plugins else remembered("arms", key, ask).value
            self._answers[form] = decode(ArmsAnswer, answer)
        return self._answers[form]
