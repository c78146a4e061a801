"""GuardInspector: reports the graphs, graph breaks, guards and recompilations of a model in words, with advice.

    inspector = GuardInspector(model)
    inspector.analyze(torch.randn(4, 8))
    report = inspector.analyze(torch.randn(5, 8))     # the second call shows what is compiled again, and why
    print(report.text())

Each `analyze` is one more call of the model; the report covers all calls so far. Nothing is lowered to kernels: what is
reported is Dynamo's, and is the same for all backends.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from driftline.core.text import first_line
from driftline.inductor.advice import advice_for_break, advice_for_recompile
from driftline.inductor.graph_text import read_graph
from driftline.inductor.guard_words import Guard, plain, read_guards
from driftline.inductor.recorder import Compilation, recording

SCHEMA = 1
_BREAK_AT = re.compile(r"Graph break in user code at (?P<file>.+):(?P<line>\d+)")
_HINT = re.compile(r"^\s*Hint: (.+)$", re.MULTILINE)
_EXPLANATION = re.compile(r"^\s*Explanation: (.+)$", re.MULTILINE)
_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>.+)\n\s*(?P<code>[^\n]*)')
_RESUMED = re.compile(r"torch_dynamo_resume_in_(?P<name>.+)_at_(?P<line>\d+)$")
_CHANGED = re.compile(r"expected (?P<expected>.+?), actual (?P<actual>[^\n]+)")
_VALUE = re.compile(r"^(?P<subject>[^\s=]+) == (?P<value>.+?)\s*(?:#|$)")


@dataclass(frozen=True)
class DynamoBreak:
    """A graph break: the line at which Dynamo stopped capturing, and why."""

    file: str
    line: int
    code: str
    reason: str
    explanation: str
    advice: str


@dataclass(frozen=True)
class CapturedGraph:
    """A compiled graph, with the guards under which it is used again."""

    id: str
    function: str
    file: str
    line: int
    operators: int
    guards: tuple[Guard, ...]


@dataclass(frozen=True)
class Recompilation:
    """A recompilation of a frame, because a guard of the earlier compilation failed."""

    id: str
    function: str
    call: int  # the number of the call of `analyze`, from 1
    guard: str  # the guard that failed
    subject: str
    expected: str
    actual: str
    others: tuple[str, ...]  # guards of older compilations that failed as well
    advice: str


@dataclass(frozen=True)
class GuardReport:
    """The report on all calls so far."""

    calls: int
    graphs: tuple[CapturedGraph, ...]
    breaks: tuple[DynamoBreak, ...]
    recompilations: tuple[Recompilation, ...]
    storm: str  # a sentence, when one guard fails again and again
    error: str = ""  # the exception of a call, if it raised

    @property
    def advice(self) -> tuple[str, ...]:
        """The advice on breaks and recompilations, most frequent first."""
        told = [one.advice for one in self.breaks] + [one.advice for one in self.recompilations]
        return tuple(text for text, _ in Counter(told).most_common() if text)

    def to_json(self) -> dict[str, Any]:
        return {"schema": SCHEMA, **asdict(self), "advice": list(self.advice)}

    def text(self, *, guards: bool = True) -> str:
        from driftline.inductor.guard_text import report_text

        return report_text(self, guards=guards)


class GuardInspector:
    """Watches Dynamo compile a model. `dynamic` is passed to torch.compile."""

    def __init__(self, model: Callable[..., Any], *, dynamic: bool | None = None) -> None:
        self._model = model
        self._dynamic = dynamic
        self._compiled: Callable[..., Any] | None = None
        self._calls = 0
        self._seen: dict[str, tuple[int, Compilation]] = {}
        self._error = ""

    def analyze(self, *inputs: Any, **kwargs: Any) -> GuardReport:
        """Call the model with these inputs, and report on all calls so far. The first call makes torch forget what it
        compiled before."""
        import torch

        if self._compiled is None:
            torch._dynamo.reset()
            self._compiled = torch.compile(self._model, backend=_plain_backend, dynamic=self._dynamic)
        self._calls += 1
        with recording(lowering=False) as heard:
            try:
                self._compiled(*inputs, **kwargs)
            except Exception as error:
                self._error = f"{type(error).__name__}: {first_line(str(error))}"
        for name, compilation in heard.compilations.items():
            if "?" not in name:
                self._seen.setdefault(name, (self._calls, compilation))
        return self._report()

    def _report(self) -> GuardReport:
        compilations = [compilation for _, compilation in self._seen.values()]
        breaks = [read_break(entry["text"]) for one in compilations for entry in one.breaks]
        known = {one.id: one for one in compilations}
        again = [_recompilation(call, one, known) for call, one in self._seen.values() if one.recompile_reasons]
        return GuardReport(
            calls=self._calls,
            graphs=tuple(_graph(one) for one in compilations if one.graphs),
            breaks=tuple(dict.fromkeys(breaks)),
            recompilations=tuple(again),
            storm=_storm(again, self._calls),
            error=self._error,
        )


def _plain_backend(graph: Any, example: Any) -> Any:
    """A backend that returns the graph as it is. Being a function of this module, it shares no compiled code with other
    backends."""
    return graph.forward


def _graph(one: Compilation) -> CapturedGraph:
    function, file, line = frame_of(one)
    try:
        operators = len(read_graph(one.graphs["pre_aot"]).nodes) if "pre_aot" in one.graphs else 0
    except ValueError:
        operators = 0
    return CapturedGraph(one.id, function, file, line, operators, read_guards(one.guards))


def frame_of(one: Compilation) -> tuple[str, str, int]:
    """Return the name (as the user wrote it), file and line of the function that was compiled."""
    frame = one.stack[-1] if one.stack else {}
    name, line = str(frame.get("name", "")), int(frame.get("line", 0))
    if resumed := _RESUMED.match(name):
        name, line = f"{resumed['name']} (after line {resumed['line']})", int(resumed["line"])
    return name, str(frame.get("filename", "")), line


def read_break(text: str) -> DynamoBreak:
    """Parse a graph break from torch's log text."""
    where = _BREAK_AT.search(text)
    file, line = (where["file"], int(where["line"])) if where else ("", 0)
    user = text.partition("User code traceback:")[2].partition("\nTraceback")[0]
    frames = list(_FRAME.finditer(user))
    code = next((f["code"].strip() for f in reversed(frames) if f["file"] == file and int(f["line"]) == line), "")
    explanation = _EXPLANATION.search(text)
    hint = _HINT.search(text)
    return DynamoBreak(
        file, line, code, _reason(text), explanation[1].strip() if explanation else "",
        advice_for_break(text.partition("User code traceback:")[0]) or (hint[1].strip() if hint else ""),
    )  # fmt: skip


def _reason(text: str) -> str:
    """Return the line of a log text that names the kind of break."""
    told = text.partition("Graph Break Reason:")[2] or text
    lines = [line.strip() for line in told.splitlines() if line.strip()]
    general = bool(lines) and lines[0].startswith("Encountered graph break when attempting to trace")
    return lines[1] if general and len(lines) > 1 else lines[0] if lines else "unknown"


def _recompilation(call: int, one: Compilation, known: Mapping[str, Compilation]) -> Recompilation:
    """Describe a recompilation. Every earlier compilation reports its first failing guard; the one whose failing guard
    comes latest was closest to being used again, so its guard is reported."""
    reasons = [(name, reason) for name, _, reason in (text.partition(": ") for text in one.recompile_reasons)]
    nearest, first = max(reasons, key=lambda pair: _depth(pair[1], known.get(pair[0])))
    guard = _guard(first)
    subject, expected, actual = _change(first, one)
    others = dict.fromkeys(_guard(reason) for name, reason in reasons if name != nearest)
    others.pop(guard, None)
    return Recompilation(
        one.id, frame_of(one)[0], call, guard, subject, expected, actual, tuple(others), advice_for_recompile(first)
    )


def _guard(reason: str) -> str:
    return plain(reason.splitlines()[0].partition("  #")[0])


def _depth(reason: str, compilation: Compilation | None) -> int:
    """Return the position of the failing guard among the guards of a compilation, or -1."""
    if compilation is None:
        return -1
    tensor = re.search(r"tensor '(.+?)'", reason)
    wanted = f"check_tensor({tensor[1]}" if tensor else _guard(reason)
    for at, line in enumerate(compilation.guards.splitlines()):
        if wanted in plain(line):
            return at
    return -1


def _change(reason: str, now: Compilation) -> tuple[str, str, str]:
    """Return the guarded value's name, the value at compile time, and the value now."""
    if match := _CHANGED.search(reason):
        tensor = re.search(r"tensor '(.+?)'", reason)
        return plain(tensor[1]) if tensor else "", match["expected"], match["actual"].strip()
    if match := _VALUE.match(plain(reason.splitlines()[0])):
        subject = match["subject"]
        for guard in read_guards(now.guards):
            if guard.subject == subject and " == " in guard.words:
                return subject, match["value"].strip(), guard.words.partition(" == ")[2]
        return subject, match["value"].strip(), "another value"
    return "", "", ""


def _storm(again: list[Recompilation], calls: int) -> str:
    """Describe the guard that fails most, if it failed at least three times; else return an empty string."""
    kinds = Counter((one.function, one.subject or one.guard, _kind(one.guard)) for one in again)
    if not kinds:
        return ""
    (function, subject, kind), count = kinds.most_common(1)[0]
    if count < 3:
        return ""
    import torch

    limit = getattr(torch._dynamo.config, "recompile_limit", 8)
    values = list(dict.fromkeys(v for one in again if (one.subject or one.guard) == subject for v in _pair(one)))
    told = f"{function} was compiled again {count} times in {calls} calls because of {subject}"
    told += f" ({kind})" if kind else ""
    told += f": it was {', '.join(values[:8])}." if any(values) else "."
    if count + 1 >= limit:
        told += f" torch stops at {limit} (torch._dynamo.config.recompile_limit), and then runs it uncompiled."
    return told


def _pair(one: Recompilation) -> tuple[str, ...]:
    return tuple(value for value in (one.expected, one.actual) if value)


def _kind(guard: str) -> str:
    match = re.search(r"' (\w+) mismatch(?: at index (\d+))?", guard)
    return "" if not match else f"{match[1]} of dimension {match[2]}" if match[2] else match[1]
