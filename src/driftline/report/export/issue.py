"""Write the text of an issue with the headings of the project that is concerned.

Each backend provides the headings of its project's issue template (`Backend.tracker`). The text says where Driftline
does not know something or has not run a step.
"""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import driftline
from driftline.backends import BACKENDS
from driftline.core.packages import TENSORFLOW
from driftline.core.program import SourceBundle
from driftline.core.quoting import code, fenced, markdown, shell
from driftline.core.text import tail
from driftline.report.export.checklist import causes, common_points, fuzzer_points, known_causes, written
from driftline.report.export.script import Exported
from driftline.report.export.subject import Subject
from driftline.report.program import program_text
from driftline.report.words import sentence

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
OUTPUT = 3000  # characters of what the script prints
_FRAMEWORKS = {
    "torch": ("torch",),
    "onnx": ("onnx",),
    "jax": ("jax", "jaxlib"),
    "tensorflow": (TENSORFLOW, "keras"),
}


@dataclass(frozen=True)
class IssueDraft:
    """The data from which the sections of an issue are written."""

    subject: Subject
    script: Exported

    def describe(self) -> str:
        subject = self.subject
        lines = [f"{markdown(subject.reason).rstrip('.')}.", ""]  # it begins with the name of an output, or an error
        lines += [self.suspects(), "", "#### Checklist", "", written(common_points(subject, self.script))]
        return "\n".join(lines)

    def fuzzer_checklist(self) -> str:
        return written(fuzzer_points(self.subject, self.script))

    def suspects(self) -> str:
        """Return sentences about the rule, causes, options and releases that are blamed, as far as they were
        found out.
        """
        subject = self.subject
        told = []
        if rule := subject.finding.verdict.get("rule"):
            told.append(f"The rewrite rule {code(str(rule['name']))} ({markdown(str(rule['where']))}) is to blame.")
        told += [markdown(cause) for cause in known_causes(subject)]
        told += [f"{cause}." for cause in causes(subject)]
        if not told and subject.ablation:
            told.append(sentence(markdown(str(subject.ablation.get("note") or "no option or pass makes it go away"))))
        if subject.bisection:
            found = subject.bisection
            told.append(markdown(f"Releases of {found['package']}: {found['summary']}."))
        return " ".join(told) or "What in the compiler is to blame was not looked for."

    def reproduce(self) -> str:
        if not self.script.text:
            return f"There is no script: {markdown(self.script.reason)}.\n\n{self.with_driftline()}"
        warning = [] if self.script.valid else [f"**This script is not valid: {markdown(self.script.reason)}.**", ""]
        return "\n".join([*warning, fenced(self.script.text.rstrip(), "python")])

    def with_driftline(self) -> str:
        """Return the program and the command that runs it with Driftline, for compilers without a short call for
        scripts, such as those of a plugin.
        """
        case = self.subject.case
        plugins = [part for plugin in case.options.plugins for part in ("--plugin", Path(plugin).name)]
        language, name = ("python", "program.py") if case.program.form == "source" else ("", "model.onnx")
        entry = f":{SourceBundle.load(case.program.path.read_bytes()).entry_name}" if language else ""
        folder = code(shell(["driftline", "export", self.subject.bug.id, "--as", "onnx"]))
        told = "With Driftline" if language else f"With Driftline ({folder} writes the model and its inputs)"
        text = program_text(case.program).strip()
        command = shell(["driftline", "check", f"{name}{entry}", "--targets", self.subject.target, *plugins])
        return f"{fenced(text, language)}\n\n{told}:\n\n{fenced(command)}"

    def output(self) -> str:
        if not self.script.output.strip():
            return "(not run)" if not self.script.valid else "(nothing)"
        return fenced(tail(_COLOURS.sub("", self.script.output).strip(), OUTPUT))

    def expected(self) -> str:
        """Describe the expected result."""
        found = self.subject.evidence
        value = str(found.first.expected) if found.first else ", ".join(found.wanted)
        kind = self.subject.kind
        if kind in ("error", "crash", "timeout", "out-of-memory"):
            return "The program is valid and has a result; see the line `expected:` below."
        such_as = f", such as {markdown(str(value))}" if value else ""
        return f"The result of the unoptimised program{such_as}; see the output below."

    def actual(self) -> str:
        return f"{markdown(self.subject.reason)}\n\n{self.output()}"

    def versions(self) -> str:
        """Return the versions of the backend's packages, the framework, Python, the system and the processor."""
        subject = self.subject
        backend = BACKENDS.get(subject.target.backend)
        framework = _FRAMEWORKS["onnx" if subject.converted else subject.case.program.framework]
        packages = dict.fromkeys((*backend.packages, *framework, "numpy"))
        shown = [markdown(f"{name} {version}") for name, version in subject.versions(list(packages)).items()]
        if not backend.packages and (own := subject.finding.execution.get("version")):  # it has no package of its own
            shown.insert(0, markdown(f"{subject.target.backend} {own}"))
        return "\n".join([*shown, f"Python {platform.python_version()}", system(), processor()])

    def version(self) -> str:
        backend = BACKENDS.get(self.subject.target.backend)
        return next(iter(self.subject.versions(backend.packages).values()), "unknown")

    def target(self) -> str:
        return code(str(self.subject.target))

    def framework(self) -> str:
        return {"onnx": "ONNX", "torch": "PyTorch", "tensorflow": "TensorFlow", "jax": "JAX"}[
            "onnx" if self.subject.converted else self.subject.case.program.framework
        ]


# What the templates of a tracker may have in braces.
FIELDS: dict[str, Callable[[IssueDraft], str]] = {
    "description": IssueDraft.describe,  # the failure, what is blamed, and a checklist
    "fuzzer_checklist": IssueDraft.fuzzer_checklist,  # the requirements of PyTorch for reports that a fuzzer found
    "reproducer": IssueDraft.reproduce,  # the script; without one, the program and the command that runs it
    "output": IssueDraft.output,  # what the script prints
    "expected": IssueDraft.expected,
    "actual": IssueDraft.actual,
    "versions": IssueDraft.versions,  # of all packages, Python, the system and the processor
    "version": IssueDraft.version,  # of the compiler
    "framework": IssueDraft.framework,  # of the program that the compiler was given
    "target": IssueDraft.target,
    "script_box": lambda draft: "[x]" if draft.script.valid else "[ ]",  # a box of a checklist: there is a script
    "platform": lambda draft: platform.system(),
    "system": lambda draft: system(),
    "architecture": lambda draft: platform.machine(),
    "python": lambda draft: platform.python_version(),
}


def _filled(template: str, draft: IssueDraft) -> str:
    """Fill in the known fields of a template. Other text in braces, as in a vendor's code, is left unchanged."""
    return re.sub(r"\{(\w+)\}", lambda found: FIELDS[found[1]](draft) if found[1] in FIELDS else found[0], template)


def issue_text(subject: Subject, script: Exported) -> str:
    """Return the text of the issue: a title, then the sections that the blamed project asks for."""
    draft = IssueDraft(subject, script)
    lines = [f"# {markdown(subject.title)}", ""]
    for heading, template in subject.tracker.sections:
        lines += [f"### {heading}", "", _filled(template, draft), ""]
    lines.append(f"Found with Driftline {driftline.__version__} ({code(subject.bug.id)}, target {draft.target()}).")
    return "\n".join(lines) + "\n"


def system() -> str:
    """Return the operating system and architecture, without the host name."""
    try:
        return f"{platform.freedesktop_os_release()['PRETTY_NAME']}, {platform.machine()}"
    except (OSError, KeyError):
        return f"{platform.system()} {platform.release()}, {platform.machine()}"


def processor() -> str:
    """Return the processor, its number of cores and its vector instructions, which decide which kernels run."""
    name, flags = platform.processor() or platform.machine(), ""
    try:
        with open("/proc/cpuinfo") as file:
            known = dict(line.split(":", 1) for line in file if ":" in line)
        keys = {key.strip(): value.strip() for key, value in known.items()}
        name = keys.get("model name", name)
        flags = " ".join(flag for flag in ("avx2", "avx512f", "amx_tile") if flag in keys.get("flags", "").split())
    except OSError:
        pass
    return f"CPU: {name}, {os.cpu_count()} cores{f', {flags}' if flags else ''}"
