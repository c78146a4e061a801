"""What differs from framework to framework when a program of a model is run in eager: one subclass for each."""

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
    """That of a form; it imports the framework, so this is for workers."""
    made: Language = import_string(_LANGUAGES[form])()
    return made


class Language(ABC):
    """A framework as programs of a model use it."""

    form: ClassVar[str]
    head: ClassVar[str] = ""  # an import that the text of an example needs

    def before_loading(self) -> None:  # noqa: B027 - most frameworks have nothing that a program may set
        """Undo what an earlier program of this process may have set."""

    @abstractmethod
    def is_tensor(self, leaf: Any) -> bool:
        """Is it a tensor of this framework?"""

    @abstractmethod
    def is_ordinary(self, tensor: Any) -> bool:
        """Can results of this sort be compared?"""

    @abstractmethod
    def call(self, model: Callable[..., Any], inputs: Sequence[Any]) -> Any:
        """Run the model in eager on copies of its inputs."""

    @abstractmethod
    def array(self, tensor: Any) -> Array: ...

    @abstractmethod
    def resized(self, tensor: Any, shape: Shape) -> Any:
        """A tensor of another shape with the same sort of numbers."""

    @abstractmethod
    def example(self, tensor: Any) -> str:
        """An expression for an input like this. Integers are often indices: those keep their numbers, as far as they
        are few."""

    def trains(self, model: Any) -> bool:
        """Is it a module in training, which computes other things than one in use?"""
        return False


def is_inexact(dtype: str) -> bool:
    return dtype.startswith(("float", "bfloat", "complex"))


def writes_numbers(dtype: str, elements: int) -> bool:
    """Does the example of such an input have its own numbers?"""
    return not is_inexact(dtype) and elements <= _WRITTEN
