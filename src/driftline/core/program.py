"""Programs: the inputs of compilers. A program is a file with a content hash, in one of a few forms.

| form     | the file holds                                                                          |
|----------|-----------------------------------------------------------------------------------------|
| `source` | a bundle of Python files and the name of a factory that returns `(callable, inputs)`     |
| `torch`  | a `torch.export` archive (.pt2)                                                         |
| `onnx`   | a serialised ModelProto; the weights of a big one are in files beside it (`data`)       |
| `tflite` | a TFLite flatbuffer                                                                     |
| `schedule` | a tensor function of Driftline with schedule primitives, as JSON; see `driftline.schedules` |
| `script` | a Python script that calls `torch.compile` itself; see `driftline.scenarios`           |

`framework` names the framework that defines the right results: torch, tensorflow, jax or onnx. It does not change on
conversion: an ONNX file exported from torch is still judged against torch.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from driftline.core.handover import open_file
from driftline.core.tensors import TensorSpec

FORMS = ("source", "torch", "onnx", "tflite")
SCHEDULE = "schedule"  # `check` gives these to no compiler: `driftline.schedules` builds them with TVM
SCRIPT = "script"  # these call the compiler themselves; `driftline.check_script` runs them
FRAMEWORKS = ("torch", "tensorflow", "jax", "onnx")


def file_digest(path: Path) -> str:
    with open_file(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]


@dataclass(frozen=True)
class Program:
    """A computation, identified by the hash of its content. `path`: the file that holds it now; `digest`: the hash."""

    form: str
    framework: str
    digest: str
    path: Path
    name: str
    inputs: tuple[TensorSpec, ...] = ()
    outputs: tuple[str, ...] = ()
    operators: tuple[str, ...] = ()
    pattern: str = ""  # the computation of a small program in readable form: `relu(clamp(float))`
    circumstances: tuple[str, ...] = ()  # further conditions of its failure: see `identity.py`
    data: tuple[str, ...] = ()  # files beside `path` that hold weights, named by their content
    weights: int = 0  # bytes of its weights, as far as known
    state: str = ""  # digest of weights, example inputs and data files, which are not part of the text
    origin: str = (
        ""  # the user's file; read in place while its text is unchanged, so that data files beside it are found
    )

    def at(self, path: Path) -> Program:
        return replace(self, path=path)

    @property
    def data_paths(self) -> tuple[Path, ...]:
        return tuple(self.path.with_name(name) for name in self.data)

    def to_json(self) -> dict[str, Any]:
        value = self._to_json()
        if self.pattern:
            value["pattern"] = self.pattern
        if self.circumstances:
            value["circumstances"] = list(self.circumstances)
        if self.data:
            value["data"] = list(self.data)
        if self.weights:
            value["weights"] = self.weights
        return value

    def _to_json(self) -> dict[str, Any]:
        return {
            "form": self.form,
            "framework": self.framework,
            "digest": self.digest,
            "name": self.name,
            "inputs": [{"name": s.name, "dtype": s.dtype, "shape": list(s.shape)} for s in self.inputs],
            "outputs": list(self.outputs),
            "operators": list(self.operators),
            "state": self.state,
            "origin": self.origin,
        }

    @staticmethod
    def from_json(value: Mapping[str, Any], path: Path) -> Program:
        return Program(
            form=value["form"],
            framework=value["framework"],
            digest=value["digest"],
            path=path,
            name=value["name"],
            inputs=tuple(TensorSpec(s["name"], s["dtype"], tuple(s["shape"])) for s in value["inputs"]),
            outputs=tuple(value["outputs"]),
            operators=tuple(value["operators"]),
            pattern=value.get("pattern", ""),
            circumstances=tuple(value.get("circumstances", ())),
            data=tuple(value.get("data", ())),
            weights=int(value.get("weights", 0)),
            state=value["state"],
            origin=value["origin"],
        )


@dataclass(frozen=True)
class SourceBundle:
    """The content of a `source` program: its files, and the file and name of the callable that makes the program."""

    entry_file: str
    entry_name: str
    files: Mapping[str, str]

    def dump(self) -> bytes:
        value = {"entry": f"{self.entry_file}:{self.entry_name}", "files": dict(sorted(self.files.items()))}
        return json.dumps(value, indent=1, sort_keys=True).encode()

    @staticmethod
    def load(data: bytes) -> SourceBundle:
        value = json.loads(data)
        entry_file, _, entry_name = value["entry"].rpartition(":")
        return SourceBundle(entry_file, entry_name, value["files"])

    @property
    def text(self) -> str:
        return self.files[self.entry_file]
