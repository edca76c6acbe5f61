"""The user file: people with passwords and groups, and API tokens; secrets only as hashes."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Final

import msgspec
from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError
from filelock import FileLock

from core.access import Identity, is_subject
from core.errors import ConfigError, ForbiddenError, InputError, UnknownNameError
from core.files import make_private, write_whole
from core.units import name_fault, one_line

MIN_PASSWORD: Final = 12
"""Characters; length is what makes a password hard to guess."""

MAX_TOKEN_DAYS: Final = 366
_PRIVATE: Final = 0o600
_WRITABLE: Final = 0o022
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,63}\Z")
_TOKEN: Final = re.compile(r"ttk_([0-9a-f]{12})_([A-Za-z0-9_-]{43})\Z")
_HASHER: Final = PasswordHasher()


class User(msgspec.Struct, kw_only=True, frozen=True):
    """A person who signs in with a password.

    Attributes:
        password: Its argon2id hash, with its parameters.
        groups: That the person belongs to.
    """

    password: str
    groups: tuple[str, ...] = ()


class Token(msgspec.Struct, kw_only=True, frozen=True):
    """An API token: the command line acts as its person.

    Attributes:
        person: Whom it stands for.
        groups: That the person belongs to; of a user of the file: the user's.
        sha256: Hash of its secret; the secret is random, so that no slow hash is needed.
        created_at: ISO 8601, UTC.
        expires_at: ISO 8601, UTC.
    """

    person: str
    groups: tuple[str, ...] = ()
    sha256: str
    created_at: datetime
    expires_at: datetime


class _Content(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    version: int = 1
    users: dict[str, User] = {}
    tokens: dict[str, Token] = {}


class UserFile:
    """Users and tokens in one JSON file of mode 0600.

    Args:
        path: Where it is; it is made when the first user or token is added.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    # -- people ---------------------------------------------------------------------------------

    def users(self) -> dict[str, User]:
        """Return the people by name.

        Raises:
            ConfigError: The file cannot be read, or others than its owner can write it.
        """
        return dict(self._content().users)

    def set_user(self, name: str, password: str, groups: tuple[str, ...] | None = None) -> None:
        """Add a person, or change the password, and the groups unless ``None``.

        Raises:
            InputError: The name or the password cannot be used.
            ConfigError: The file cannot be read or written.
        """
        if not _NAME.match(name):
            raise InputError(
                f"{one_line(name)!r} is not a valid user name.",
                hint="Use up to 64 letters, digits and . _ @ + -.",
            )
        if len(password) < MIN_PASSWORD:
            raise InputError(
                f"The password has {len(password)} characters; the minimum is {MIN_PASSWORD}.",
                hint="Use a sentence, or a password manager.",
            )
        with self._changing() as content:
            known = content.users.get(name)
            kept = known.groups if known and groups is None else groups or ()
            content.users[name] = User(password=_HASHER.hash(password), groups=kept)

    def remove_user(self, name: str) -> int:
        """Remove a person with all tokens; return how many tokens that were.

        Raises:
            UnknownNameError: There is no such person.
        """
        with self._changing() as content:
            if name not in content.users:
                raise UnknownNameError.of("user", name, content.users, place=str(self._path))
            del content.users[name]
            theirs = [key for key, one in content.tokens.items() if one.person == name]
            for key in theirs:
                del content.tokens[key]
        return len(theirs)

    def verified(self, name: str, password: str) -> Identity | None:
        """Authenticate; return the identity or ``None``. Deliberately slow."""
        user = self._content().users.get(name)
        try:
            # an unknown name takes as long as a wrong password: nobody learns which names exist
            _HASHER.verify(user.password if user else _of_nobody(), password)
        except (VerificationError, InvalidHashError):
            return None
        return None if user is None else Identity(name=name, groups=user.groups, source="users")

    def current(self, name: str) -> Identity | None:
        """Return a person as the file has it now; ``None`` if the file has no such person."""
        user = self._content().users.get(name)
        return None if user is None else Identity(name=name, groups=user.groups, source="users")

    def stamp(self, name: str) -> str:
        """Return a text that changes with the person's password; empty: there is no such person."""
        user = self._content().users.get(name)
        return hashlib.sha256(user.password.encode()).hexdigest()[:16] if user else ""

    # -- tokens ---------------------------------------------------------------------------------

    def tokens(self) -> dict[str, Token]:
        """Return the tokens by id, expired ones included."""
        return dict(self._content().tokens)

    def add_token(
        self, person: str, groups: tuple[str, ...], days: float, now: datetime
    ) -> tuple[str, str]:
        """Make a token; return its id and the token itself, which is stored nowhere.

        Raises:
            InputError: It would last too long, or for no time.
        """
        if not 0 < days <= MAX_TOKEN_DAYS:
            raise InputError(
                f"A token can be valid for at most {MAX_TOKEN_DAYS} days, not {days:g}."
            )
        if not _NAME.match(person) and (not is_subject(person) or name_fault(person)):
            raise InputError(
                f"{one_line(person)!r} is not a valid name.",
                hint="Use up to 64 letters, digits and . _ @ + -, or ISSUER#SUBJECT.",
            )
        key, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
        with self._changing() as content:
            content.tokens[key] = Token(
                person=person,
                groups=groups,
                sha256=_sha256(secret),
                created_at=now,
                expires_at=now + timedelta(days=days),
            )
        return key, f"ttk_{key}_{secret}"

    def remove_token(self, key: str) -> None:
        """Revoke a token.

        Raises:
            UnknownNameError: There is none of that id.
        """
        with self._changing() as content:
            if key not in content.tokens:
                raise UnknownNameError.of("token", key, content.tokens, place=str(self._path))
            del content.tokens[key]

    def of_token(self, text: str, now: datetime) -> Identity:
        """Return the identity of a token.

        Raises:
            ForbiddenError: It is not known, was revoked or has expired; it is not repeated.
        """
        parts = _TOKEN.match(text.strip())
        content = self._content()
        token = content.tokens.get(parts[1]) if parts else None
        if (
            parts is None
            or token is None
            or not hmac.compare_digest(token.sha256, _sha256(parts[2]))
        ):
            raise ForbiddenError(
                "The API token is unknown: it was revoked, or belongs to another installation.",
                hint="Ask an admin for a new one: `trimtab tokens create NAME`.",
            )
        if token.expires_at <= now:
            raise ForbiddenError(
                f"The API token {parts[1]} expired on {token.expires_at:%Y-%m-%d}.",
                hint="Ask an admin for a new one: `trimtab tokens create NAME`.",
            )
        user = content.users.get(token.person)
        groups = user.groups if user else token.groups
        subject = token.person if is_subject(token.person) else ""
        return Identity(name=token.person, groups=groups, source="token", subject=subject)

    # -- file -----------------------------------------------------------------------------------

    def _content(self) -> _Content:
        try:
            found = self._path.stat()
        except FileNotFoundError:
            return _Content()
        except OSError as exc:
            raise self._unusable(exc.strerror or "unknown") from exc
        return self._read(found.st_mtime_ns, found.st_size, found.st_mode)

    @lru_cache(maxsize=2)  # noqa: B019  # one file object per installation
    def _read(self, changed_ns: int, size: int, mode: int) -> _Content:  # noqa: ARG002  # key of the cache
        if mode & _WRITABLE:  # whoever writes it gives themselves a name, a password and groups
            raise ConfigError(
                f"The user file {self._path} is writable by other users.",
                hint=f"Check its content, then run: chmod 600 {self._path}",
            )
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=_Content)
        except OSError as exc:
            raise self._unusable(exc.strerror or "unknown") from exc
        except (msgspec.MsgspecError, RecursionError) as exc:
            raise self._unusable(f"it is damaged ({exc})") from exc

    def _unusable(self, fault: str) -> ConfigError:
        return ConfigError(
            f"The user file {self._path} cannot be used: {fault}.",
            hint="Check its owner and mode, or restore it from a copy.",
        )

    @contextmanager
    def _changing(self) -> Iterator[_Content]:
        """Give the content to change; it is written whole when nothing went wrong."""
        try:
            make_private(self._path.parent)
            with FileLock(f"{self._path}.lock", timeout=10, mode=_PRIVATE):
                saved = self._content()
                content = _Content(users=dict(saved.users), tokens=dict(saved.tokens))
                yield content
                text = msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n"
                write_whole(self._path, text)
        except (OSError, TimeoutError) as exc:
            raise self._unusable(getattr(exc, "strerror", None) or str(exc)) from exc


@lru_cache(maxsize=1)
def _of_nobody() -> str:
    return _HASHER.hash(secrets.token_hex(16))


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("ascii")).hexdigest()
