"""What differs between frameworks when a language model's program is run in eager mode, with one subclass for each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from driftline.core.registry import import_string
from driftline.core.tensors import Array, Shape

_WRITTEN = 64  # elements of an input of integers that are written out

_LANGUAGES = {
    "torch": "driftline.generate.authored.torch_language:TorchLanguage",
    "jax": "driftline.generate.authored.jax_language:JaxLanguage",
    "tensorflow": "driftline.generate.authored.tensorflow_language:TensorFlowLanguage",
}


def language_of(form: str) -> Language:
    """Return the language of a program format. Imports the framework, so use it only in workers."""
    made: Language = import_string(_LANGUAGES[form])()
    return made


class Language(ABC):
    """The operations on one framework that are needed to run a language model's programs."""

    form: ClassVar[str]
    head: ClassVar[str] = ""  # an import that the text of an example needs

    def before_loading(self) -> None:  # noqa: B027 - most frameworks have nothing that a program may set
        """Undo settings that an earlier program in this process may have made."""

    @abstractmethod
    def is_tensor(self, leaf: Any) -> bool:
        """True if the leaf is a tensor of this framework."""

    @abstractmethod
    def is_ordinary(self, tensor: Any) -> bool:
        """True if results of this kind of tensor can be compared."""

    @abstractmethod
    def call(self, model: Callable[..., Any], inputs: Sequence[Any]) -> Any:
        """Run the model in eager mode on copies of its inputs."""

    @abstractmethod
    def array(self, tensor: Any) -> Array: ...

    @abstractmethod
    def resized(self, tensor: Any, shape: Shape) -> Any:
        """Return a tensor of another shape with the same kind of numbers."""

    @abstractmethod
    def example(self, tensor: Any) -> str:
        """Return an expression for an input like this. Integers are often indices, so their values are kept if there
        are few."""

    def trains(self, model: Any) -> bool:
        """True if the model is a module in training mode, which computes other results than in use."""
        return False


def is_inexact(dtype: str) -> bool:
    return dtype.startswith(("float", "bfloat", "complex"))


def writes_numbers(dtype: str, elements: int) -> bool:
    """True if the example of such an input keeps its own numbers."""
    return not is_inexact(dtype) and elements <= _WRITTEN
