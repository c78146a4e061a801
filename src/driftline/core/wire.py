"""Encodes values as JSON and back by their declared types, for messages between parent and worker and for stores.

A message is a frozen dataclass. Its fields may be text, numbers, enums, paths, other dataclasses, tuples, lists, sets,
mappings, `X | None`, and unions of dataclasses, which are distinguished by their names. Arrays are never sent: they are
in files. A field with its default value is left out, so that a field added later does not make older data unreadable.

Decoding validates: an unknown or missing field, or a value of another type, raises a `WireError` that names the field.
Standard library only: the worker side runs in environments that have little else.
"""

from __future__ import annotations

import json
import types
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from enum import StrEnum
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar, Union, get_args, get_origin, get_type_hints

from driftline.core.errors import InternalError

Json = Any  # data that `json.dumps` accepts
T = TypeVar("T")

_TAG = "is"  # the key that names the dataclass of a union


class WireError(InternalError):
    """A message does not have its declared type: a bug in Driftline, or a forged answer."""


# The exceptions that reading and decoding JSON raises for text from an untrusted source.
DAMAGES = (WireError, ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError)

MOST_VALUES = 4 << 20  # in one text: an empty list takes two bytes of it, and thirty times that in memory


def values_in(data: bytes) -> int:
    """Return about how many values a text of JSON has, before it is read."""
    return sum(map(data.count, (b",", b"[", b"{")))


def loads(text: str | bytes) -> Json:
    """Read JSON from an untrusted source. Raises one of `DAMAGES`, also for more values than a message needs, and for
    characters that nobody can write."""
    data = text.encode() if isinstance(text, str) else text
    if len(data) > MOST_VALUES and values_in(data) > MOST_VALUES:
        raise WireError("it has too many values")
    found = json.loads(data)
    if b"\\ud" in data or b"\\uD" in data:  # half of a pair, in which no file is written
        json.dumps(found, ensure_ascii=False).encode()
    return found


_OWN_FORM: set[type] = set()


def own_form(kind: type[T]) -> type[T]:
    """Decorate a class that is encoded by its own `to_json` and `from_json`, the form used in stores."""
    _OWN_FORM.add(kind)
    return kind


def encode(kind: type[T], value: T) -> Json:
    """Return a value as plain data for `json.dumps`."""
    return codec_of(kind).encode(value)


def decode(kind: type[T], data: Json) -> T:
    """Return the value that was given to `encode`. Raises `WireError`."""
    found: T = codec_of(kind).decode(data)
    return found


class Codec(Protocol):
    """Encodes and decodes values of one type. `plain`: `json.dumps` accepts the values as they are."""

    @property
    def plain(self) -> bool: ...

    def encode(self, value: Any) -> Json: ...

    def decode(self, data: Json) -> Any: ...


def codec_of(kind: Any) -> Codec:
    """Return the codec of a type; made once for each type."""
    found: Codec = _codec_of(kind)
    return found


@cache
def _codec_of(kind: Any) -> Codec:
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is Any or kind is object:
        return _Anything()
    if kind in (str, int, bool):
        return _Scalar((kind,))
    if kind is float:
        return _Scalar((float, int))
    if origin is Literal:
        return _Chosen(arguments)
    if origin in (Union, types.UnionType):
        return _union(arguments)
    if origin is tuple and arguments[-1] is not Ellipsis:
        return _FixedTuple([codec_of(argument) for argument in arguments])
    if origin in (tuple, list, Sequence):
        return _Several(codec_of(arguments[0]), list if origin is list else tuple)
    if origin in (frozenset, AbstractSet):
        return _Several(codec_of(arguments[0]), frozenset)
    if origin in (dict, Mapping):
        return _Mapping(codec_of(arguments[0]), _key(arguments[0]), codec_of(arguments[1]))
    if isinstance(kind, type):
        if kind in _OWN_FORM:
            return _Own(kind)
        if issubclass(kind, StrEnum):
            return _Enum(kind)
        if kind is Path:
            return _Path()
        if is_dataclass(kind):
            return _Record(kind)
    raise TypeError(f"{kind} cannot be sent between processes")


class _Anything:
    """Passes on plain data that only its reader understands."""

    plain = True

    def encode(self, value: Any) -> Json:
        return value

    decode = encode


class _Scalar:
    plain = True

    def __init__(self, kinds: tuple[type, ...]) -> None:
        self._kinds = kinds
        self.exact = frozenset(kinds)

    def encode(self, value: Any) -> Json:
        return value

    def decode(self, data: Json) -> Any:
        if not isinstance(data, self._kinds):
            raise WireError(f"{data!r:.80} is not {' or '.join(kind.__name__ for kind in self._kinds)}")
        return data


class _Chosen:
    plain = True

    def __init__(self, choices: tuple[Any, ...]) -> None:
        self._choices = choices

    def encode(self, value: Any) -> Json:
        return value

    def decode(self, data: Json) -> Any:
        if data not in self._choices:
            raise WireError(f"{data!r:.80} is none of {self._choices}")
        return data


class _Enum:
    plain = True

    def __init__(self, kind: type[StrEnum]) -> None:
        self._kind = kind

    def encode(self, value: Any) -> Json:
        return value

    def decode(self, data: Json) -> Any:
        try:
            return self._kind(data)
        except ValueError as error:
            raise WireError(str(error)) from error


class _Path:
    plain = False

    def encode(self, value: Path) -> Json:
        return str(value)

    def decode(self, data: Json) -> Path:
        if not isinstance(data, str):
            raise WireError(f"{data!r:.80} is no path")
        return Path(data)


class _Own:
    plain = False

    def __init__(self, kind: Any) -> None:
        self._kind = kind

    def encode(self, value: Any) -> Json:
        return value.to_json()

    def decode(self, data: Json) -> Any:
        try:
            return self._kind.from_json(data)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            raise WireError(f"no {self._kind.__name__}: {type(error).__name__}: {error}") from error


def _exact_types(items: Sequence[Codec]) -> frozenset[type]:
    """Return the types whose values need no decoding, if all items are scalars of one kind; makes the common case
    fast."""
    found = {item.exact for item in items if isinstance(item, _Scalar)}
    return found.pop() if len(found) == 1 and all(isinstance(item, _Scalar) for item in items) else frozenset()


class _Several:
    def __init__(self, item: Codec, make: Callable[[Any], Any]) -> None:
        self._item, self._make = item, make
        self._exact = _exact_types([item])
        self.plain = item.plain and make is not frozenset

    def encode(self, value: Any) -> Json:
        if self.plain:
            return list(value)
        items = map(self._item.encode, value)
        return sorted(items) if self._make is frozenset else list(items)

    def decode(self, data: Json) -> Any:
        if not isinstance(data, list | tuple):
            raise WireError(f"{data!r:.80} is no list")
        if self._exact.issuperset(map(type, data)):
            return self._make(data)
        return self._make(map(self._item.decode, data))


class _FixedTuple:
    def __init__(self, items: Sequence[Codec]) -> None:
        self._items = items
        self._exact = _exact_types(items)
        self.plain = all(item.plain for item in items)

    def encode(self, value: Any) -> Json:
        return [item.encode(part) for item, part in zip(self._items, value, strict=True)]

    def decode(self, data: Json) -> Any:
        if not isinstance(data, list | tuple) or len(data) != len(self._items):
            raise WireError(f"{data!r:.80} is no list of {len(self._items)}")
        if self._exact.issuperset(map(type, data)):
            return tuple(data)
        return tuple(item.decode(part) for item, part in zip(self._items, data, strict=True))


def _key(kind: Any) -> Callable[[str], Any]:
    """Return a function that reads a mapping's key from its JSON text."""
    if kind is str or (isinstance(kind, type) and issubclass(kind, StrEnum)):
        return codec_of(kind).decode
    if kind is int:
        return int
    raise TypeError(f"{kind} cannot be the key of a mapping that is sent")


class _Mapping:
    def __init__(self, key: Codec, read_key: Callable[[str], Any], value: Codec) -> None:
        self._read_key, self._value = read_key, value
        self.plain = False  # a mapping need not be a dict

    def encode(self, value: Mapping[Any, Any]) -> Json:
        return dict(value) if self._value.plain else {key: self._value.encode(item) for key, item in value.items()}

    def decode(self, data: Json) -> Any:
        if not isinstance(data, dict):
            raise WireError(f"{data!r:.80} is no mapping")
        return {self._read_key(key): self._value.decode(item) for key, item in data.items()}


def _union(members: Sequence[Any]) -> Codec:
    others = [member for member in members if member is not types.NoneType]
    inner = codec_of(others[0]) if len(others) == 1 else _several_kinds(others)
    return inner if len(others) == len(members) else _Optional(inner)


def _several_kinds(members: Sequence[Any]) -> Codec:
    if all(member in (str, int, float, bool) for member in members):
        return _Scalar(tuple(members))
    if all(is_dataclass(member) and member not in _OWN_FORM for member in members):
        return _Tagged({member.__name__: _Record(member) for member in members})
    raise TypeError(f"which of {members} is meant could not be told when it arrives")


class _Optional:
    def __init__(self, inner: Codec) -> None:
        self._inner = inner
        self.plain = inner.plain

    def encode(self, value: Any) -> Json:
        return None if value is None else self._inner.encode(value)

    def decode(self, data: Json) -> Any:
        return None if data is None else self._inner.decode(data)


class _Tagged:
    """The codec of a union of dataclasses."""

    plain = False

    def __init__(self, members: Mapping[str, _Record]) -> None:
        self._members = members

    def encode(self, value: Any) -> Json:
        name = type(value).__name__
        if name not in self._members:
            raise WireError(f"{name} is none of {', '.join(self._members)}")
        return {_TAG: name, **self._members[name].encode(value)}

    def decode(self, data: Json) -> Any:
        name: str = data.get(_TAG, "") if isinstance(data, dict) else ""
        if name not in self._members:
            raise WireError(f"{data!r:.80} is none of {', '.join(self._members)}")
        return self._members[name].decode({key: item for key, item in data.items() if key != _TAG})


@dataclass(frozen=True)
class _Part:
    """One field of a dataclass, with its codec."""

    name: str
    codec: Codec
    encode: Callable[[Any], Json] | None  # None: the value is sent as it is
    default: Any


class _Record:
    """The codec of a dataclass."""

    plain = False

    def __init__(self, kind: Any) -> None:
        self._kind = kind

    @cached_property
    def _parts(self) -> list[_Part]:  # on first use, since a dataclass may hold others of its own kind
        hints = get_type_hints(self._kind)
        return [_part(item, codec_of(hints[item.name])) for item in fields(self._kind)]

    @cached_property
    def _readers(self) -> dict[str, Callable[[Json], Any]]:
        return {part.name: part.codec.decode for part in self._parts}

    def encode(self, value: Any) -> Json:
        if not isinstance(value, self._kind):
            raise WireError(f"{type(value).__name__} is sent where {self._kind.__name__} is expected")
        made = {}
        for part in self._parts:
            item = getattr(value, part.name)
            if item is not part.default and item != part.default:
                made[part.name] = part.encode(item) if part.encode else item
        return made

    def decode(self, data: Json) -> Any:
        if not isinstance(data, dict):
            raise WireError(f"{data!r:.80} is no {self._kind.__name__}")
        readers, name = self._readers, ""
        try:
            given = {}
            for name, item in data.items():
                given[name] = readers[name](item)
        except KeyError as error:
            raise WireError(f"{self._kind.__name__} has no field {name}") from error
        except WireError as error:
            raise WireError(f"{self._kind.__name__}.{name}: {error}") from error
        try:
            return self._kind(**given)
        except TypeError as error:
            lacking = [part.name for part in self._parts if part.default is MISSING and part.name not in given]
            told = f"missing are {', '.join(lacking)}" if lacking else str(error)
            raise WireError(f"{self._kind.__name__}: {told}") from error


def _part(item: Field[Any], codec: Codec) -> _Part:
    default = item.default if item.default_factory is MISSING else item.default_factory()
    return _Part(item.name, codec, None if codec.plain else codec.encode, default)
