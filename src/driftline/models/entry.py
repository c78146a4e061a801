"""What is known about a model before it is built. Nothing here imports a framework."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from driftline.core.errors import DriftlineError

_NONE: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True)
class Entry:
    """One model of the corpus."""

    name: str
    family: str
    maker: str  # module:function below this package
    description: str
    dtype: str = "float32"
    size: str = "small"  # or "full": the size that people deploy
    form: str = "torch"  # or "onnx": made by a tool that writes ONNX
    needs: tuple[str, ...] = ("torch", "transformers")
    grad: bool = False  # made to be checked with gradients
    settings: Mapping[str, Any] = field(default_factory=lambda: _NONE)

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "family": self.family,
            "description": self.description,
            "dtype": self.dtype,
            "size": self.size,
            "form": self.form,
            "grad": self.grad,
            "needs": list(self.needs),
        }

    def require_packages(self) -> None:
        """Raise if a required package is missing."""
        missing = [package for package in self.needs if importlib.util.find_spec(package) is None]
        if missing:
            raise DriftlineError(
                f"The model {self.name} needs {' and '.join(missing)}, which is not installed:"
                " pip install -c constraints.txt 'driftline[all,models]'."
            )
