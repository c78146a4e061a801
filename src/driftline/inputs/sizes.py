"""The sizes of inputs: those that the user sets with `--dim` and `--shape`, and sensible defaults for the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from driftline.core.errors import DriftlineError
from driftline.core.tensors import ANY_SIZE, Arrays, Shape, TensorSpec
from driftline.core.text import did_you_mean
from driftline.inputs.dimensions import default_size, evaluated, expression, names_of, place_size, total_of
from driftline.programs.known import Known


@dataclass(frozen=True)
class Sizes:
    """The sizes that the user asked for: one or several for a dimension, one or several shapes for an input."""

    dims: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    shapes: Mapping[str, tuple[Shape, ...]] = field(default_factory=dict)

    @staticmethod
    def parse(dims: Sequence[str], shapes: Sequence[str]) -> Sizes:
        """Parse the text of the options: `batch=2,seq=16/33` and `input_ids=2x16`."""
        sizes = _pairs(dims, "--dim batch=2,seq=128")
        whole = _pairs(shapes, "--shape input_ids=2x128")
        return Sizes(
            {name: tuple(_size(part, f"--dim {name}={text}") for part in text.split("/")) for name, text in sizes},
            {name: tuple(_shape(part, f"--shape {name}={text}") for part in text.split("/")) for name, text in whole},
        )

    @staticmethod
    def of(dims: Mapping[str, int | Sequence[int]], shapes: Mapping[str, Sequence[Any]]) -> Sizes:
        """Make sizes from Python values: `{"batch": 2, "seq": [16, 33]}` and `{"input_ids": (2, 16)}`, or a list of
        shapes."""

        def sizes(value: Any) -> str:
            return "/".join(map(str, value)) if isinstance(value, (tuple, list)) else str(value)

        def several(value: Any) -> str:
            if not isinstance(value, (tuple, list)):
                return str(value)
            one = not value or not isinstance(value[0], (tuple, list))
            return "/".join("x".join(map(str, shape)) or "()" for shape in ([value] if one else value))

        return Sizes.parse(
            [f"{name}={sizes(value)}" for name, value in dims.items()],
            [f"{name}={several(value)}" for name, value in shapes.items()],
        )

    def __bool__(self) -> bool:
        return bool(self.dims or self.shapes)

    @property
    def count(self) -> int:
        """How many different size combinations the program is run at."""
        return max((len(several) for several in (*self.dims.values(), *self.shapes.values())), default=1)

    def turn(self, number: int) -> Sizes:
        """Return the sizes of sample `number`. Each list is cycled through independently."""
        return Sizes(
            {name: (several[number % len(several)],) for name, several in self.dims.items()},
            {name: (several[number % len(several)],) for name, several in self.shapes.items()},
        )


NOT_GIVEN = Sizes()


@dataclass(frozen=True)
class Chosen:
    """The input shapes of one sample, and the sizes of the named dimensions that they follow from."""

    shapes: Mapping[str, Shape]
    sizes: Mapping[str, int]
    guessed: tuple[str, ...] = ()  # dimensions whose size was not asked for

    def __str__(self) -> str:
        return ", ".join(f"{name}={size}" for name, size in self.sizes.items())


def choose(specs: Sequence[TensorSpec], example: Arrays, known: Known, sizes: Sizes) -> Chosen:
    """Choose the shapes of all inputs. Raises an error for sizes that contradict the program or name nothing in it."""
    names = names_of(known)
    _require_known(sizes, specs, known, names)
    settled = {name: several[0] for name, several in sizes.dims.items()}
    for spec in specs:
        if spec.name in sizes.shapes:
            _take(spec, sizes.shapes[spec.name][0], known, names, settled)
    guessed = tuple(name for name in names if name not in settled)
    given = _from_example(specs, example, known, names) if not sizes else {}
    for name in guessed:
        if name in given:
            settled[name] = given[name]
        elif total_of(name, names) is None:
            settled[name] = default_size(name, specs, known)
    for name in guessed:
        if name not in settled and (parts := total_of(name, names)):
            settled[name] = settled[parts[0]] + settled[parts[1]]
    for name, size in settled.items():
        _within_limit(name, size, known)
    shapes = {spec.name: _shape_of(spec, example, known, sizes, settled) for spec in specs}
    return Chosen(shapes, {name: settled[name] for name in names}, tuple(n for n in guessed if n not in given))


def _shape_of(spec: TensorSpec, example: Arrays, known: Known, sizes: Sizes, settled: Mapping[str, int]) -> Shape:
    dims = known.dims.get(spec.name, ())
    if spec.name in sizes.shapes:
        asked = sizes.shapes[spec.name][0]
    elif spec.name in example and (not sizes or known.resizable):
        return tuple(example[spec.name].shape)
    else:
        asked = ()
    made = []
    for axis, size in enumerate(spec.shape):
        name = dims[axis] if axis < len(dims) else ""
        tree = expression(name, settled) if name else None
        if name in settled:
            size = settled[name]
        elif tree is not None:
            size = evaluated(tree, settled)
            if asked and asked[axis] != size:
                raise DriftlineError(
                    f"--shape {spec.name}={_text(asked)} contradicts the model, where axis {axis} is {name} = {size}."
                    " Give the sizes behind it with --dim."
                )
        elif asked:
            size = asked[axis]
        elif size == ANY_SIZE:
            size = place_size(spec, axis)
        made.append(size)
    return tuple(made)


def _take(spec: TensorSpec, asked: Shape, known: Known, names: Sequence[str], settled: dict[str, int]) -> None:
    """Record in `settled` the sizes of named dimensions that a requested shape implies."""
    if len(asked) != len(spec.shape):
        raise DriftlineError(
            f"--shape {spec.name}={_text(asked)} has {len(asked)} dimensions, but the program takes {spec}."
        )
    for axis, (size, fixed) in enumerate(zip(asked, spec.shape, strict=True)):
        dims = known.dims.get(spec.name, ())
        name = dims[axis] if axis < len(dims) else ""
        if name in names:
            if settled.setdefault(name, size) != size:
                raise DriftlineError(
                    f"--shape {spec.name}={_text(asked)} makes {name} {size}, but it is {settled[name]} elsewhere:"
                    " dimensions of one name have one size."
                )
        elif fixed not in (ANY_SIZE, size) and not name and not known.resizable:
            raise DriftlineError(
                f"--shape {spec.name}={_text(asked)} contradicts the program, which takes {spec}:"
                f" axis {axis} is always {fixed}."
            )


def _require_known(sizes: Sizes, specs: Sequence[TensorSpec], known: Known, names: Sequence[str]) -> None:
    for name in sizes.dims:
        if name in names:
            continue
        if not names and not known.resizable and not any(ANY_SIZE in spec.shape for spec in specs):
            raise DriftlineError(
                f"--dim {name}: all sizes of the model are fixed; export it with open ones (dynamic axes), or leave"
                " --dim out."
            )
        if not names:
            raise DriftlineError(
                f"--dim {name}: the program has no dimensions with a name; give whole shapes, as in"
                f" --shape {_example_shape(specs)}."
            )
        raise DriftlineError(
            f"--dim {name}: there is no dimension of that name.{did_you_mean(name, names)}"
            f" There are: {', '.join(names)}."
        )
    inputs = [spec.name for spec in specs]
    for name in sizes.shapes:
        if name not in inputs:
            takes = ", ".join(inputs) or "no inputs"
            raise DriftlineError(
                f"--shape {name}: the program has no input of that name.{did_you_mean(name, inputs)} It takes: {takes}."
            )


def _within_limit(name: str, size: int, known: Known) -> None:
    limit = known.limits.get(name)
    if limit is not None and size > limit:
        raise DriftlineError(f"{name}={size} is more than the model can take, which is {limit}.")


def _from_example(specs: Sequence[TensorSpec], example: Arrays, known: Known, names: Sequence[str]) -> dict[str, int]:
    return {
        dim: example[spec.name].shape[axis]
        for spec in specs
        if spec.name in example
        for axis, dim in enumerate(known.dims.get(spec.name, ()))
        if dim in names
    }


def _pairs(texts: Sequence[str], usage: str) -> list[tuple[str, str]]:
    option = usage.split()[0]
    found: dict[str, str] = {}
    for part in (part.strip() for text in texts for part in text.split(",") if part.strip()):
        name, equals, value = part.rpartition("=")
        if not equals or not name or not value:
            form = "NAME=SIZE" if option == "--dim" else "INPUT=AxBxC"
            raise DriftlineError(f"{option} {','.join(texts)}: {part!r} is not {form}; write it like {usage}.")
        if found.setdefault(name.strip(), value.strip()) != value.strip():
            raise DriftlineError(
                f"{option} names {name} twice; several sizes are written {name}={found[name]}/{value}."
            )
    return list(found.items())


def _size(text: str, where: str) -> int:
    number = _number(text, where, "seq=128 or seq=16/33")
    if not number:
        raise DriftlineError(f"{where}: sizes are 1 or more, as in seq=128 or seq=16/33.")
    return number


def _number(text: str, where: str, usage: str) -> int:
    if not text.isdecimal():
        raise DriftlineError(f"{where}: {text!r} is not a size; a size is a whole number, as in {usage}.")
    return int(text)


def _shape(text: str, where: str) -> Shape:
    if text in ("scalar", "()"):
        return ()
    return tuple(_number(part, where, "--shape input_ids=2x128") for part in text.lower().split("x"))


def _text(shape: Shape) -> str:
    return "x".join(map(str, shape)) or "scalar"


def _example_shape(specs: Sequence[TensorSpec]) -> str:
    spec = next((spec for spec in specs if spec.shape), None)
    return f"{spec.name}={_text(spec.sized(2))}" if spec else "input=2x3"
