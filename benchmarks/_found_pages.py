"""The pages of docs/found: an index, and one page for each compiler.

They are written from the causes and their scripts, and the scripts are read back from them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from driftline.causes import Cause

_ENTRY = re.compile(r"^<!-- (?P<id>\S+) (?P<digest>[0-9a-f]{12}) -->$(?P<body>.*?)(?=^<!-- |\Z)", re.M | re.S)
_SCRIPT = re.compile(r"^```python script$\n(.*?)^```$", re.M | re.S)

NAMES = {
    "onnxruntime": "ONNX Runtime", "openvino": "OpenVINO", "tvm": "TVM", "iree": "IREE", "onnxscript": "onnxscript",
    "onnx-reference": "The reference evaluator of the ONNX project", "inductor": "TorchInductor",
    "aot_eager_decomp": "PyTorch's decompositions", "eager": "PyTorch itself", "torchscript": "TorchScript",
    "executorch": "ExecuTorch", "xla": "XLA through JAX and torchax", "tensorflow-xla": "XLA through TensorFlow",
    "tflite": "TensorFlow Lite",
}  # fmt: skip
_HARD = ("error", "crash")


@dataclass(frozen=True)
class Entry:
    """The script of one cause; without one, `problem` says why."""

    id: str
    digest: str
    script: str
    problem: str = ""


def read_entries(folder: Path) -> dict[str, Entry]:
    """What the pages have. A page that does not exist yet has nothing."""
    found: dict[str, Entry] = {}
    for page in sorted(folder.glob("*.md")):
        for match in _ENTRY.finditer(page.read_text()):
            script = _SCRIPT.search(match["body"])
            problem = "" if script else _problem_in(match["body"])
            found[match["id"]] = Entry(match["id"], match["digest"], script[1] if script else "", problem)
    return found


def _problem_in(body: str) -> str:
    told = re.search(r"^No script of its own \((.*)\)\. ", body, re.M)
    return told[1] if told else ""


def write_page(folder: Path, compiler: str, causes: Sequence[Cause], entries: Mapping[str, Entry]) -> None:
    """The page of one compiler."""
    folder.mkdir(parents=True, exist_ok=True)
    own = [cause for cause in causes if cause.compiler == compiler]
    (folder / f"{_file(compiler)}.md").write_text(_page(compiler, own, entries))


def write_index(folder: Path, causes: Sequence[Cause]) -> None:
    """The index, from the causes and what the pages have."""
    by_compiler: dict[str, list[Cause]] = {}
    for cause in causes:
        by_compiler.setdefault(cause.compiler, []).append(cause)
    (folder / "README.md").write_text(_index(by_compiler, read_entries(folder)))


def _index(by_compiler: Mapping[str, Sequence[Cause]], entries: Mapping[str, Entry]) -> str:
    rows = []
    for compiler, own in sorted(by_compiler.items(), key=lambda pair: -len(pair[1])):
        link = f"[{NAMES.get(compiler, compiler)}]({_file(compiler)}.md)"
        rows.append((link, ", ".join(_releases(own)), *_counts(own, entries)))
    everything = [cause for own in by_compiler.values() for cause in own]
    rows.append(("**all**", "", *(f"**{count}**" for count in _counts(everything, entries))))
    table = "\n".join("| " + " | ".join(str(cell) for cell in row) + " |" for row in rows)
    return f"""# What Driftline has found

Every distinct cause that was found so far in a released compiler, each with the shortest script that shows it. The
scripts need the compiler's own packages only (their versions stand in the first lines, PEP 723: `uv run script.py`) and
end with 1 where the bug is. They were made and run by `benchmarks/found.py --write-docs`; `benchmarks/found.py` runs
them again. The causes are files in `src/driftline/causes/library`, one folder for each compiler.

*Plainly wrong*: a wrong result, a crash, or a valid program that is refused. *Debatable*: somebody may call it
intended, or it is precision only; the page says why. Operators that make the same mistake in one compiler are one
cause. *Fixed since*: a later release has repaired it; these are kept as tests that it stays so, and are not among the
others.

| compiler | seen in | causes | plainly wrong | debatable | reported | scripts that were run | fixed since |
|---|---|---|---|---|---|---|---|
{table}
"""


def _counts(causes: Iterable[Cause], entries: Mapping[str, Entry]) -> tuple[int, ...]:
    everything = list(causes)
    own = [cause for cause in everything if not cause.fixed]
    plain = sum(not cause.debatable for cause in own)
    run = sum(bool(entry and entry.script) for entry in (entries.get(cause.id) for cause in own))
    reported = sum(bool(cause.reported) for cause in own)
    return len(own), plain, len(own) - plain, reported, run, len(everything) - len(own)


def _releases(causes: Iterable[Cause]) -> list[str]:
    return sorted({release for cause in causes for release in cause.seen if not cause.fixed})


def _page(compiler: str, causes: Sequence[Cause], entries: Mapping[str, Entry]) -> str:
    count, plain, debatable, reported, run, fixed = _counts(causes, entries)
    since = f" {fixed} more {'is' if fixed == 1 else 'are'} fixed since." if fixed else ""
    head = f"""# {NAMES.get(compiler, compiler)}

{count} causes: {plain} plainly wrong, {debatable} debatable, {reported} reported; {run} scripts were run.{since}
What the columns and words mean is told in [the index](README.md).
"""
    ordered = sorted(
        causes, key=lambda cause: (bool(cause.fixed), bool(cause.debatable), cause.kinds[0] in _HARD, cause.id)
    )
    return head + "".join(f"\n{_section(cause, entries.get(cause.id))}" for cause in ordered)


def _section(cause: Cause, entry: Entry | None) -> str:
    title = cause.title
    facts = [cause.kinds[0], *([f"seen in {', '.join(cause.seen)}"] if cause.seen else [])]
    if cause.machines:
        facts.append(f"on {', '.join(cause.machines)}")
    if cause.fixed:
        facts.append(f"fixed in {cause.fixed}")
    facts.append(f"reported: <{cause.reported}>" if cause.reported else "not reported")
    digest = entry.digest if entry else "0" * 12
    lines = [f"<!-- {cause.id} {digest} -->", f"## {title}", "", f"`{cause.id}`: {'; '.join(facts)}."]
    if cause.debatable:
        lines += ["", f"Debatable: {cause.debatable.rstrip('.')}."]
    if entry and entry.script:
        lines += ["", "```python script", entry.script.rstrip(), "```"]
    else:
        why = entry.problem.rstrip(".") if entry and entry.problem else "it was not run"
        lines += ["", f"No script of its own ({why}). `driftline check` shows it on `{cause.witness.target}`:", ""]
        lines += ["```python", cause.witness.program.rstrip(), "```"]
    return "\n".join(lines) + "\n"


def _file(compiler: str) -> str:
    return compiler.replace(":", "-")
