"""Secrets that come back: what an endpoint echoes of our credentials is replaced on arrival.

A broker, a proxy or whoever answers in its place may repeat the header that it refused. Every
secret that is read from the configuration is registered here, and every border (admin REST,
ZooKeeper, the load topics) replaces all of them in what it receives, before anything is decoded,
stored or shown.
"""

from __future__ import annotations

import base64
import json
import re
import threading
from functools import lru_cache
from typing import Any, Final
from urllib.parse import quote, quote_plus

import re2

MARK: Final = b"[secret]"
MIN_CHARACTERS: Final = 4
"""A shorter secret is in every text by chance; it is not replaced, and ``check`` names it."""
_MIN_STRONG: Final = 8
_MIN_STRONG_DIGITS: Final = 16
_ANNOUNCED: Final = (
    rb"((?:authorization|bearer|basic|token|passw(?:or)?d|pwd|secret|credentials?|digest|api[-_]?key)"
    rb"[^a-z0-9]{1,16})"
)

_lock = threading.Lock()
_secrets: set[str] = set()


def register(secret: str) -> None:
    """Replace ``secret`` from now on, in each form that it may come back in."""
    if len(secret) >= MIN_CHARACTERS and secret not in _secrets:
        with _lock:
            _secrets.add(secret)
        _patterns.cache_clear()


def redacted(content: bytes) -> bytes:
    """Return received text without our secrets; the same object if it has none."""
    found = _patterns()
    if found is None or found[0].search(content) is None:
        return content
    clean = found[1].sub(_replacement, content)
    return content if clean == content else clean


def redacted_text(text: str) -> str:
    """Return a foreign text without our secrets."""
    clean = redacted(text.encode("utf-8", "surrogateescape"))
    return clean.decode("utf-8", "surrogateescape")


def is_weak(secret: str) -> bool:
    """Return whether a secret may occur in data by chance: short, or only digits.

    It is replaced only after a word such as ``Bearer`` or ``password``.
    """
    return len(secret) < (_MIN_STRONG_DIGITS if secret.isdigit() else _MIN_STRONG)


def _replacement(found: re.Match[bytes]) -> bytes:
    announcement = found[1] or b""
    # digits may be a number of a JSON document, which has to stay one
    is_number = found.group()[len(announcement) :].isdigit()
    return announcement + (b"0" if is_number else MARK)


@lru_cache(maxsize=1)
def _patterns() -> tuple[Any, re.Pattern[bytes]] | None:
    """Return a quick check for secrets in a text, and their replacements.

    The first one is RE2's: it reads 100,000 bundle reports some fifty times as fast as ``re``, but
    cannot look behind.
    """
    with _lock:
        forms = {form for secret in _secrets for form in _forms(secret)}
    if not forms:
        return None
    weak = {form for form in forms if is_weak(form.decode("latin-1"))}
    digits = {form for form in forms - weak if form.isdigit()}
    choices = [
        (rb"%s", forms - weak - digits),
        (rb"(?<![0-9.])%s(?![0-9.])", digits),
        (_ANNOUNCED + rb"%s(?![a-z0-9])", weak),
    ]
    # a group that is always there: the pattern has one even where no secret is weak
    parts = [rb"(?!)()", *(shape % _any_of(some) for shape, some in choices if some)]
    if weak:
        del parts[0]
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.case_sensitive = False
    options.max_mem = 1 << 28
    quick = [_any_of(some) for some in (forms - weak,) if some]
    quick += [_ANNOUNCED + _any_of(weak)] if weak else []
    return re2.compile(b"|".join(quick), options), re.compile(b"|".join(parts), re.IGNORECASE)


def _any_of(forms: set[bytes]) -> bytes:
    # the longest first: a part of a form must not be replaced before the whole of it
    ordered = sorted(forms, key=lambda form: (-len(form), form))
    return b"(?:" + b"|".join(map(re.escape, ordered)) + b")"


def _forms(secret: str) -> set[bytes]:
    """Every form that a secret may come back in: raw, escaped, URL-encoded, base64."""
    raw = secret.encode()
    escaped = json.dumps(secret)[1:-1]
    forms = {
        raw,
        escaped.encode(),
        escaped.replace("/", "\\/").encode(),
        json.dumps(secret, ensure_ascii=False)[1:-1].encode(),
        "".join(f"\\u{unit:04x}" for unit in _units(secret)).encode(),
        quote(secret, safe="").encode(),
        quote(secret).encode(),
        quote_plus(secret).encode(),
        re.sub(r"%[0-9A-F]{2}", lambda code: code.group().lower(), quote(secret, safe="")).encode(),
        secret.encode("latin-1", "replace"),
        raw.hex().encode(),
    }
    for part in _base64_parts(raw):
        forms |= {part, part.replace(b"/", b"\\/"), quote(part.decode(), safe="").encode()}
        forms.add(part.translate(bytes.maketrans(b"+/", b"-_")))
    return {form for form in forms if len(form) >= MIN_CHARACTERS}


def _units(text: str) -> list[int]:
    content = text.encode("utf-16-be")
    return [int.from_bytes(content[at : at + 2], "big") for at in range(0, len(content), 2)]


def _base64_parts(raw: bytes) -> list[bytes]:
    """The base64 of a secret wherever it begins in a longer text, without its shared ends."""
    whole = base64.b64encode(raw)
    parts = [whole, whole.rstrip(b"=")]
    for shift in range(3):
        text = base64.b64encode(b"\0" * shift + raw)
        start = (0, 2, 3)[shift]  # characters that depend on what stands before
        rest = (shift + len(raw)) % 3
        end = len(text) - (0, 3, 2)[rest]  # and on what follows
        part = text[start:end].rstrip(b"=")
        if len(part) >= 2 * MIN_CHARACTERS:
            parts.append(part)
    return parts
