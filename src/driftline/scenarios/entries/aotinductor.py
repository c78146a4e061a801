"""AOTInductor: `torch._inductor.aoti_compile_and_package` and `aoti_load_package`.

Compiling takes long, so eager runs write a stub in place of the package, and load a stand-in that calls the twin.

Compared, because AOTInductor promises them: the numbers, types and containers of outputs, tensors among the inputs that
a call changes, and that a call raises where eager raises. A package holds copies of parameters and buffers; changes of
its buffers appear in the outputs of later calls. Not compared: gradients, random numbers, memory that tensors share,
and calls with inputs of other types than the example inputs.
"""

from __future__ import annotations

import functools
import os
import tempfile
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch._inductor
from torch._inductor.package import AOTICompiledModel
from torch.export.graph_signature import ConstantArgument, OutputKind
from torch.utils import _pytree as pytree

from driftline.scenarios.entries.call import MadeCall, MadeObject
from driftline.scenarios.entries.export import program_made
from driftline.scenarios.entries.files import Files
from driftline.scenarios.entries.making import Making, called_by_library, put_in_place, undisturbed
from driftline.scenarios.entries.twin import copied, detached, state_of
from driftline.scenarios.recorder import CallRecorder


@dataclass(frozen=True)
class MadePackage(MadeObject):
    """A compiled package. `constants`: positions of outputs that are Python values in the program; a package returns
    tensors there."""

    constants: frozenset[int] = frozenset()

    def without_constants(self, output: Any) -> Any:
        """Return the output with `None` in place of Python values."""
        leaves, spec = pytree.tree_flatten(output)
        return pytree.tree_unflatten(
            [None if place in self.constants else leaf for place, leaf in enumerate(leaves)], spec
        )


def _made(program: Any, made: MadeObject) -> MadePackage:
    outputs = [one.arg for one in program.graph_signature.output_specs if one.kind is OutputKind.USER_OUTPUT]
    constants = frozenset(place for place, one in enumerate(outputs) if isinstance(one, ConstantArgument))
    return MadePackage(made.twin, made.example, constants)


class StubPackage(AOTICompiledModel):
    """Stands for a loaded package in eager runs. Its calls go to the twin."""

    def __init__(self, made: MadePackage) -> None:
        self._made = made

    def get_constant_fqns(self) -> list[str]:
        """Return the names of parameters and buffers."""
        return [*state_of(self._made.twin.kept)]

    def get_metadata(self) -> dict[str, str]:
        """Return an empty dict: a stub has no metadata."""
        return {}


class PackageCall(MadeCall):
    """A call of a loaded package."""

    draws = False

    def __init__(self, made: MadePackage, call: Callable[..., Any], args: Any, kwargs: Any) -> None:
        super().__init__(made, call, args, kwargs)
        self.name = f"{made.twin.name} (in a package)"
        self._made = made

    def real(self) -> Any:
        """Call the package. If the twin has buffers it is called too, to keep them up to date: those of a package
        cannot be read."""
        if self.eager or not state_of(self.made.twin.kept).keys() - dict(self.made.twin.kept.named_parameters()).keys():
            return self.plain() if self.eager else super().real()
        args, kwargs = copied((self.args, self.kwargs))
        output = super().real()
        with torch.random.fork_rng(devices=()), undisturbed(), torch.no_grad():
            self.made.twin.call(None, args, kwargs)
        return output

    def plain(self) -> Any:
        with torch.no_grad():
            return detached(self.made.twin.call(None, self.args, self.kwargs))

    def seen(self, output: Any) -> Any:
        return detached(self._made.without_constants(output))


@contextmanager
def installed(recorder: CallRecorder) -> Iterator[None]:
    """A context in which the recorder records packages and their calls."""
    calls = _PackageFunctions(recorder)
    with ExitStack() as stack:
        stack.enter_context(
            put_in_place(
                torch._inductor,
                aoti_compile_and_package=calls.compile_and_package,
                aoti_load_package=calls.load_package,
            )
        )
        methods = {"__call__": calls.calling(), "load_constants": calls.loading_constants()}
        stack.enter_context(put_in_place(AOTICompiledModel, **methods))
        yield


class _Loading(Making):
    """A call of `load_constants`. Its errors are not judged: eager runs do not know which names a package accepts."""

    def declines(self, error: BaseException) -> bool:
        return True


class _PackageFunctions:
    """The functions that replace those of AOTInductor."""

    def __init__(self, recorder: CallRecorder) -> None:
        self._recorder = recorder
        self._compile, self._load = torch._inductor.aoti_compile_and_package, torch._inductor.aoti_load_package
        self._files: Files[MadePackage] = Files()
        self._packages: weakref.WeakKeyDictionary[Any, MadePackage] = weakref.WeakKeyDictionary()

    def compile_and_package(self, exported_program: Any, *args: Any, package_path: Any = None, **options: Any) -> Any:
        """Replaces `torch._inductor.aoti_compile_and_package`."""
        build = functools.partial(self._compile, exported_program, *args, package_path=package_path, **options)
        made = program_made(exported_program)
        if made is None or called_by_library() or not isinstance(package_path, (str, os.PathLike, type(None))):
            return build()

        def package() -> Any:
            return _write_stub(package_path) if self._recorder.eager else build()

        making = Making("torch._inductor.aoti_compile_and_package", package, lambda: None, self._recorder.script)
        path = self._recorder.make(making)
        self._files.remember(path, _made(exported_program, made))
        return path

    def load_package(self, path: Any, *args: Any, **options: Any) -> Any:
        """Replaces `torch._inductor.aoti_load_package`."""
        made = self._files.known(path)
        if made is None:
            return self._load(path, *args, **options)
        made = replace(made, twin=made.twin.again())
        package = StubPackage(made) if self._recorder.eager else self._load(path, *args, **options)
        self._packages[package] = made
        return package

    def calling(self) -> Callable[..., Any]:
        """Return a replacement for the call of a loaded package."""
        real = AOTICompiledModel.__call__

        def call(package: Any, *args: Any, **kwargs: Any) -> Any:
            made = self._packages.get(package)
            if made is None:
                return real(package, *args, **kwargs)
            return self._recorder.call_made(PackageCall(made, functools.partial(real, package), args, kwargs))

        return call

    def loading_constants(self) -> Callable[..., Any]:
        """Return a replacement for `load_constants` of a loaded package, which updates the twin too."""
        real = AOTICompiledModel.load_constants

        def load_constants(package: Any, constants_map: Mapping[str, torch.Tensor], **options: Any) -> None:
            build = functools.partial(real, package, constants_map, **options)
            loading = build if not isinstance(package, StubPackage) else lambda: None
            self._recorder.make(_Loading("load_constants", loading, lambda: None, self._recorder.script))
            made = self._packages.get(package)
            state = state_of(made.twin.kept) if made else {}
            with torch.no_grad():
                for name in state.keys() & constants_map.keys():
                    state[name].copy_(constants_map[name])

        return load_constants


def _write_stub(path: str | os.PathLike[str] | None) -> str:
    """Write a file with unique contents in place of a package, and return its path."""
    if path is None:
        handle, path = tempfile.mkstemp(suffix=".pt2")
        os.close(handle)
    with open(path, "wb") as file:
        file.write(b"a stub of a package " + os.urandom(16))
    return str(path)
