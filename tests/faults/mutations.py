"""Damage that files and answers suffer: cut, flipped, of another type, nested, huge, empty."""

from __future__ import annotations

import json
import random
from typing import Any

WRONG_VALUES: tuple[Any, ...] = (
    None,
    True,
    "",
    "abc",
    -1,
    -7.5,
    10**30,
    1e308,
    [],
    {},
    [[[]]],
    {"usage": "x"},
    "\ud83d\ude00" * 3,
)


def mutate(raw: bytes, rng: random.Random) -> bytes:
    """Return a damaged copy; the same generator state gives the same damage."""
    kinds = (_cut, _flip, _drop_key, _wrong_value, _wrong_value, _rename_key, _insert, _whole)
    return rng.choice(kinds)(raw, rng)


def _cut(raw: bytes, rng: random.Random) -> bytes:
    return raw[: rng.randrange(max(len(raw), 1))]


def _flip(raw: bytes, rng: random.Random) -> bytes:
    out = bytearray(raw)
    for _ in range(rng.randint(1, 4)):
        if out:
            out[rng.randrange(len(out))] = rng.randrange(256)
    return bytes(out)


def _insert(raw: bytes, rng: random.Random) -> bytes:
    place = rng.randrange(len(raw) + 1)
    junk = rng.choice((b"\x00", b"\xff\xfe", b"{", b'"', b"]", b"[" * 2_000, b"1e999", b"NaN"))
    return raw[:place] + junk + raw[place:]


def _whole(raw: bytes, rng: random.Random) -> bytes:
    choices = (b"", b"null", b"[]", b"{}", b"0", b'"x"', b"<html></html>", b"[" * 100_000)
    return rng.choice(choices)


def _places(value: Any, found: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            found.append((value, key))
            _places(inner, found)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            found.append((value, index))
            _places(inner, found)
    return found


def _edit(raw: bytes, rng: random.Random, change: Any) -> bytes:
    try:
        value = json.loads(raw)
    except ValueError:
        return _flip(raw, rng)
    places = _places(value, [])
    if not places:
        return _cut(raw, rng)
    change(*rng.choice(places))
    return json.dumps(value).encode()


def _drop_key(raw: bytes, rng: random.Random) -> bytes:
    return _edit(raw, rng, lambda holder, key: holder.__delitem__(key))


def _wrong_value(raw: bytes, rng: random.Random) -> bytes:
    wrong = rng.choice(WRONG_VALUES)
    return _edit(raw, rng, lambda holder, key: holder.__setitem__(key, wrong))


def _rename_key(raw: bytes, rng: random.Random) -> bytes:
    def rename(holder: Any, key: Any) -> None:
        if isinstance(holder, dict):
            holder[f"{key}x"] = holder.pop(key)
        else:
            holder[key] = "x"

    return _edit(raw, rng, rename)
