"""A call of a compiled object: the object itself is called in the compiled run, its twin in eager runs."""

from __future__ import annotations

import abc
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch

from driftline.scenarios.entries.making import undisturbed
from driftline.scenarios.entries.twin import CallSignature, Twin, input_roots, signature
from driftline.scenarios.happening import Happening


@dataclass(frozen=True)
class MadeObject:
    """An object that an entry point made: its twin, and the example inputs it was made for."""

    twin: Twin
    example: CallSignature | None  # signature of the example inputs; `None` if any inputs are allowed


class MadeCall(Happening):
    """One call of a compiled object. The attributes of a subclass say what its entry point promises."""

    sharing = False
    printing = False
    own_errors = False
    errors = True  # a call must raise where eager raises
    draws = True  # random numbers must be those of eager

    def __init__(self, made: MadeObject, call: Callable[..., Any], args: Any, kwargs: Any) -> None:
        self.made, self.args, self.kwargs = made, args, kwargs
        self._call = call  # calls the object
        self.signature = signature(made.twin, args, kwargs)

    @property
    def comparable(self) -> bool:
        """True if the object was made for inputs of this kind."""
        return self.made.example is None or self.made.example.kind == self.signature.kind

    @property
    def foreseen(self) -> bool:
        """True if the inputs have exactly the sizes and Python values that the object was made for."""
        return self.made.example is None or self.made.example == self.signature

    def real(self) -> Any:
        """Call the object."""
        return self._call(*self.args, **self.kwargs)

    @abc.abstractmethod
    def plain(self) -> Any:
        """Call the twin."""

    def require_fit(self) -> None:
        """Raise the object's own error if it refuses these inputs."""

    def run(self) -> Any:
        """Call the object in the compiled run, its twin in eager runs."""
        if not self.eager:
            with nullcontext() if self.draws else _random_state_kept():
                return self.real()
        if not self.foreseen:
            with undisturbed():
                self.require_fit()
        drawn = _random_state()
        try:
            with nullcontext() if self.draws else _random_state_kept():
                output = self.plain()
                self.judged = self.draws or drawn == _random_state()
            return output
        except Exception:
            if self.errors:
                raise
            self.judged = False
            return self.real()

    def roots(self, output: Any) -> dict[str, Any]:
        return {"output": self.seen(output), **self.roots_of_error()}

    def seen(self, output: Any) -> Any:
        """Return the output in the form in which it is compared."""
        return output

    def roots_of_error(self) -> dict[str, Any]:
        return input_roots(self.made.twin, self.args, self.kwargs)

    def declines(self, error: BaseException) -> bool:
        return not self.foreseen


def _random_state_kept() -> AbstractContextManager[None]:
    return torch.random.fork_rng(devices=())


def _random_state() -> bytes:
    return torch.get_rng_state().numpy().tobytes()
