"""Frameworks by their usual names (`pytorch`, `torch_compile`, `onnx`), or any target as `check` spells it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from driftline.backends import BACKENDS, resolve
from driftline.checking.checker import Skipped
from driftline.core.errors import DriftlineError
from driftline.core.target import Target
from driftline.core.text import did_you_mean
from driftline.execute.environments import find_environment
from driftline.instabilities.models import MEANING, ModelFiles
from driftline.programs.convert import accepts_directly

USUAL = {"pytorch": "eager", "torch_compile": "inductor", "onnx": "onnxruntime"}
DEFAULT_FRAMEWORKS = "pytorch,torch_compile,onnx,openvino,xla"
_FORM = {"torch": "source", "onnx": "onnx", "torchscript": "torch"}  # of the programs of a model, once opened


@dataclass(frozen=True)
class Framework:
    """A target under the name that the user gave it."""

    name: str
    target: Target

    def form(self, model: ModelFiles) -> str | None:
        """Return the key of the model's program that this framework is given (`torch`, `onnx` or `torchscript`), or
        None if it accepts none."""
        backend = resolve(self.target)
        accepts, own = backend.accepts, backend.prefers
        for name, text in sorted(model.programs.items(), key=lambda item: (item[0] != own, item[0] == "torchscript")):
            form = "torch" if text.endswith(".pt2") else _FORM[name]
            if accepts_directly(form, MEANING[name], accepts):
                return name
        return None


def parse_frameworks(text: str) -> list[Framework]:
    """Parse a list such as `pytorch,torch_compile,tvm:opt=2`. Raises an error that suggests similar names for unknown
    ones."""
    found: dict[str, Framework] = {}
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        name, colon, options = part.partition(":")
        target = Target.parse(f"{USUAL.get(name, name)}{colon}{options}")
        if target.backend not in BACKENDS:
            known = [*USUAL, *BACKENDS]
            raise DriftlineError(
                f"--frameworks {part}: there is no such framework.{did_you_mean(name, known)}"
                f" Known: {', '.join(known)}."
            )
        resolve(target)  # its options
        found[part] = Framework(part, target)
    if not found:
        raise DriftlineError(f"--frameworks: name at least one, as in --frameworks {DEFAULT_FRAMEWORKS}.")
    return list(found.values())


def available(frameworks: Sequence[Framework]) -> tuple[list[Framework], list[Skipped]]:
    """Split the frameworks into those that can run here and those that cannot, with the reason."""
    here, skipped = [], []
    for framework in frameworks:
        backend = resolve(framework.target)
        if framework.target.version:
            if find_environment(list(backend.packages), framework.target.version):
                here.append(framework)
            else:
                reason = f"not installed; driftline env add {backend.packages[0]}=={framework.target.version}"
                skipped.append(Skipped(framework.target, reason))
            continue
        found = backend.installed()
        if found.available:
            here.append(framework)
        else:
            skipped.append(Skipped(framework.target, f"{found.reason}; {backend.install_command}"))
    return here, skipped
