"""Damage for files: bytes flipped, cut, doubled, moved, or replaced by numbers that sizes break on."""

from __future__ import annotations

import random

NUMBERS = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 1 << 31, (1 << 32) - 1, 1 << 40, (1 << 63) - 1, (1 << 64) - 1)
TEXTS = (
    b"\xff\xfe\x80",
    b"\0",
    b"\n",
    b"'",
    b'"',
    b"../../x",
    b"-1",
    b"NaN",
    b"1e999",
    b"{" * 50,
    b"[" * 2000,
    b"null",
)


def mutated(data: bytes, others: list[bytes], rng: random.Random) -> bytes:
    """The data after one to six changes."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 6))):
        rng.choice(_CHANGES)(changed, others, rng)
    return bytes(changed)


def _flip(data: bytearray, others: list[bytes], rng: random.Random) -> None:
    if data:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def _byte(data: bytearray, others: list[bytes], rng: random.Random) -> None:
    if data:
        data[rng.randrange(len(data))] = rng.randrange(256)


def _cut(data: bytearray, others: list[bytes], rng: random.Random) -> None:
    del data[rng.randrange(len(data) + 1) :]


def _remove(data: bytearray, others: list[bytes], rng: random.Random) -> None:
    at = rng.randrange(len(data) + 1)
    del data[at : at + rng.choice((1, 2, 4, 8, 32))]


def _double(data: bytearray, others: list[bytes], rng: random.Random) -> None:
    at = rng.randrange(len(data) + 1)
    piece = data[at : at + rng.choice((1, 4, 16, 64, 256))]
    data[at:at] = piece * rng.choice((1, 2, 50))


def _number(data: bytearray, others: list[bytes], rng: random.Random) -> None:
    width = rng.choice((1, 2, 4, 8))
    at = rng.randrange(len(data) + 1)
    value = rng.choice(NUMBERS) & ((1 << 8 * width) - 1)
    data[at : at + width] = value.to_bytes(width, rng.choice(("little", "big")))


def _varint(data: bytearray, others: list[bytes], rng: random.Random) -> None:
    """A number as protobuf writes it."""
    value, written = rng.choice(NUMBERS), bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    at = rng.randrange(len(data) + 1)
    data[at : at + 1] = written + bytes([value])


def _text(data: bytearray, others: list[bytes], rng: random.Random) -> None:
    at, text = rng.randrange(len(data) + 1), rng.choice(TEXTS)
    data[at : at + rng.choice((0, len(text)))] = text


def _digits(data: bytearray, others: list[bytes], rng: random.Random) -> None:
    """Another number where one is written in digits."""
    places = [at for at, byte in enumerate(data) if 48 <= byte <= 57]
    if places:
        at = rng.choice(places)
        data[at : at + 1] = rng.choice((b"-1", b"9" * 20, b"0", b"1.5", b"7", b"99999999"))


def _splice(data: bytearray, others: list[bytes], rng: random.Random) -> None:
    other = rng.choice(others)
    at, start = rng.randrange(len(data) + 1), rng.randrange(len(other) + 1)
    piece = other[start : start + rng.choice((4, 16, 64, 512))]
    data[at : at + rng.choice((0, len(piece)))] = piece


_CHANGES = (_flip, _flip, _byte, _cut, _remove, _double, _number, _varint, _text, _digits, _splice)
