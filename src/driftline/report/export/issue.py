"""The text of an issue, in the form that the project concerned asks for.

The headings are those of each project's own template. What Driftline cannot know, or has not done, is said.
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
from driftline.core.text import tail
from driftline.report.export.checklist import causes, common_points, fuzzer_points, written
from driftline.report.export.script import Exported
from driftline.report.export.subject import Subject
from driftline.report.program import program_text

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
OUTPUT = 3000  # characters of what the script prints
_FRAMEWORKS = {
    "torch": ("torch",),
    "onnx": ("onnx",),
    "jax": ("jax", "jaxlib"),
    "tensorflow": (TENSORFLOW, "keras"),
}


@dataclass(frozen=True)
class Draft:
    """What the sections are written from."""

    subject: Subject
    script: Exported

    def describe(self) -> str:
        subject = self.subject
        lines = [_sentence(_plain(subject.reason)), ""]
        lines += [self.suspects(), "", "#### Checklist", "", written(common_points(subject, self.script))]
        return "\n".join(lines)

    def describe_to_pytorch(self) -> str:
        points = written(fuzzer_points(self.subject, self.script))
        return f"{self.describe()}\n{points}\n- [ ] The output of `python -m torch.utils.collect_env` is attached"

    def suspects(self) -> str:
        """What is to blame, as far as that was found out."""
        subject = self.subject
        told = []
        if rule := subject.finding.verdict.get("rule"):
            told.append(f"The rewrite rule `{rule['name']}` ({rule['where']}) is to blame.")
        told += [f"{cause}." for cause in causes(subject)]
        if not told and subject.ablation:
            told.append(_sentence(str(subject.ablation.get("note") or "no option or pass makes it go away")))
        if subject.bisection:
            told.append(f"Releases of {subject.bisection['package']}: {subject.bisection['summary']}.")
        return " ".join(told) or "What in the compiler is to blame was not looked for."

    def reproduce(self) -> str:
        if not self.script.text:
            return f"There is no script: {self.script.reason}.\n\n{self.with_driftline()}"
        warning = [] if self.script.valid else [f"**This script is not valid: {self.script.reason}.**", ""]
        return "\n".join([*warning, "```python", self.script.text.rstrip(), "```"])

    def with_driftline(self) -> str:
        """The program and the command that runs it, for compilers that Driftline has no short call of, such as those of
        a plugin."""
        case = self.subject.case
        plugins = "".join(f" --plugin {Path(plugin).name}" for plugin in case.options.plugins)
        language, name = ("python", "program.py") if case.program.form == "source" else ("", "model.onnx")
        entry = f":{SourceBundle.load(case.program.path.read_bytes()).entry_name}" if language else ""
        folder = f"driftline export {self.subject.bug.id} --as onnx"
        told = "With Driftline" if language else f"With Driftline ({folder} writes the model and its inputs)"
        text = program_text(case.program).strip()
        command = f"driftline check {name}{entry} --targets {self.subject.target}{plugins}"
        return f"```{language}\n{text}\n```\n\n{told}:\n\n```\n{command}\n```"

    def output(self) -> str:
        if not self.script.output.strip():
            return "(not run)" if not self.script.valid else "(nothing)"
        return f"```\n{tail(_COLOURS.sub('', self.script.output).strip(), OUTPUT)}\n```"

    def expected(self) -> str:
        value = self.subject.evidence.get("expected")
        kind = self.subject.kind
        if kind in ("error", "crash", "timeout", "out-of-memory"):
            return "The program is valid and has a result; see the line `expected:` below."
        return f"The result of the unoptimised program{f', such as {value}' if value else ''}; see the output below."

    def actual(self) -> str:
        return f"{_plain(self.subject.reason)}\n\n{self.output()}"

    def versions(self) -> str:
        subject = self.subject
        backend = BACKENDS.get(subject.target.backend)
        framework = _FRAMEWORKS["onnx" if subject.converted else subject.case.program.framework]
        packages = dict.fromkeys((*backend.packages, *framework, "numpy"))
        shown = [f"{name} {version}" for name, version in subject.versions(list(packages)).items()]
        if not backend.packages and (own := subject.finding.execution.get("version")):  # it has no package of its own
            shown.insert(0, f"{subject.target.backend} {own}")
        return "\n".join([*shown, f"Python {platform.python_version()}", system(), processor()])

    def version(self) -> str:
        backend = BACKENDS.get(self.subject.target.backend)
        return next(iter(self.subject.versions(backend.packages).values()), "unknown")

    def target(self) -> str:
        return f"`{self.subject.target}`"

    def framework(self) -> str:
        return {"onnx": "ONNX", "torch": "PyTorch", "tensorflow": "TensorFlow", "jax": "JAX"}[
            "onnx" if self.subject.converted else self.subject.case.program.framework
        ]

    def nightly(self) -> str:
        return "No"

    def openvino_checklist(self) -> str:
        """The boxes of their template; only a person can tick the second."""
        return "\n".join(
            [
                "- [x] I'm reporting an issue. It's not a question.",
                "- [ ] I checked the problem with the documentation, FAQ, open issues, Stack Overflow, etc.,"
                " and have not found a solution.",
                f"- [{'x' if self.script.valid else ' '}] There is reproducer code and related data files such as"
                " images, videos, models, etc.",
            ]
        )


Section = tuple[str, Callable[[Draft], str]]


def fixed(text: str) -> Callable[[Draft], str]:
    return lambda draft: text


_PYTORCH: tuple[Section, ...] = (
    ("\N{BUG} Describe the bug", Draft.describe_to_pytorch),
    ("Minimal reproducer", Draft.reproduce),
    ("Output", Draft.output),
    ("Versions", Draft.versions),
)
_ONNXRUNTIME: tuple[Section, ...] = (
    ("Describe the issue", Draft.describe),
    ("To reproduce", lambda draft: f"{draft.reproduce()}\n\nIt prints:\n\n{draft.output()}"),
    ("Urgency", fixed("No deadline.")),
    ("Platform", lambda draft: platform.system()),
    ("OS Version", lambda draft: system()),
    ("ONNX Runtime Installation", fixed("Released Package")),
    ("ONNX Runtime Version or Commit ID", Draft.version),
    ("ONNX Runtime API", fixed("Python")),
    ("Architecture", lambda draft: platform.machine()),
    ("Execution Provider", fixed("Default CPU")),
    ("Execution Provider Library Version", fixed("_none_")),
)
_OPENVINO: tuple[Section, ...] = (
    ("OpenVINO Version", Draft.version),
    ("Operating System", lambda draft: system()),
    ("Device used for inference", fixed("CPU")),
    ("Framework", Draft.framework),
    ("Model used", fixed("The model in the script below.")),
    ("Issue description", Draft.describe),
    ("Step-by-step reproduction", Draft.reproduce),
    ("Relevant log output", Draft.output),
    ("Issue submission checklist", Draft.openvino_checklist),
)
_TVM: tuple[Section, ...] = (
    ("Expected behavior", Draft.expected),
    ("Actual behavior", Draft.actual),
    ("Environment", Draft.versions),
    ("Steps to reproduce", Draft.reproduce),
    ("What is known", Draft.describe),
    ("Triage", fixed("* needs-triage")),
)
_TENSORFLOW: tuple[Section, ...] = (
    ("Issue type", fixed("Bug")),
    ("Have you reproduced the bug with TensorFlow Nightly?", Draft.nightly),
    ("Source", fixed("binary")),
    ("TensorFlow version", Draft.version),
    ("Custom code", fixed("Yes")),
    ("OS platform and distribution", lambda draft: system()),
    ("Python version", lambda draft: platform.python_version()),
    ("Current behavior?", Draft.describe),
    ("Standalone code to reproduce the issue", Draft.reproduce),
    ("Relevant log output", Draft.output),
)
_JAX: tuple[Section, ...] = (
    ("Description", lambda draft: f"{draft.describe()}\n\n{draft.reproduce()}\n\nIt prints:\n\n{draft.output()}"),
    ("System info (python version, jaxlib version, accelerator, etc.)", Draft.versions),
)
_IREE: tuple[Section, ...] = (
    ("What happened?", Draft.describe),
    ("Steps to reproduce your issue", lambda draft: f"{draft.reproduce()}\n\nIt prints:\n\n{draft.output()}"),
    ("What component(s) does this issue relate to?", fixed("Compiler")),
    ("Version information", Draft.versions),
)
_ANY: tuple[Section, ...] = (
    ("What happens", Draft.describe),
    ("How to reproduce it", Draft.reproduce),
    ("Output", Draft.output),
    ("Versions", Draft.versions),
)
_PROJECTS: dict[str, tuple[Section, ...]] = {
    "inductor": _PYTORCH,
    "aotinductor": _PYTORCH,
    "aot_eager": _PYTORCH,
    "aot_eager_decomp": _PYTORCH,
    "torchscript": _PYTORCH,
    "torch.onnx": _PYTORCH,
    "onnxruntime": _ONNXRUNTIME,
    "openvino": _OPENVINO,
    "tvm": _TVM,
    "tensorflow": _TENSORFLOW,
    "tensorflow-xla": _TENSORFLOW,
    "tflite": _TENSORFLOW,
    "xla": _JAX,
    "iree": _IREE,
}


def issue_text(subject: Subject, script: Exported) -> str:
    """A title, then the sections of the project that is to blame."""
    draft = Draft(subject, script)
    sections = _PROJECTS.get(subject.blamed, _ANY)
    lines = [f"# {_plain(subject.title)}", ""]
    for heading, write in sections:
        lines += [f"### {heading}", "", write(draft), ""]
    lines.append(f"Found with Driftline {driftline.__version__} (`{subject.bug.id}`, target {draft.target()}).")
    return "\n".join(lines) + "\n"


def system() -> str:
    """The operating system, without the machine's name."""
    try:
        return f"{platform.freedesktop_os_release()['PRETTY_NAME']}, {platform.machine()}"
    except (OSError, KeyError):
        return f"{platform.system()} {platform.release()}, {platform.machine()}"


def processor() -> str:
    """What vector instructions there are decides which kernels run."""
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


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:].rstrip('.')}."


def _plain(text: str) -> str:
    return " ".join(text.split())
