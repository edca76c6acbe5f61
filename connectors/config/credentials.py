"""The parts of the configuration that prove who we are: tokens, passwords, certificates.

Secrets never leave their fields unasked: printing a configuration shows none of them.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, SecretStr, model_validator

from connectors.transport.redaction import register
from core.errors import ConfigError


class Strict(BaseModel):
    """Base of every table of the file: an unknown key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Auth(Strict):
    """Authentication at the admin interface: a token, or user and password, or neither."""

    token: SecretStr | None = None
    token_file: Path | None = None
    username: str | None = None
    password: SecretStr | None = None
    password_file: Path | None = None

    @model_validator(mode="after")
    def _one_way(self) -> Auth:
        if self.token is not None and self.token_file is not None:
            raise ValueError("set token or token_file, not both")
        if self.username is not None and self.has_token:
            raise ValueError("set a token or a user name, not both")
        if (self.username is None) != (self.password is None and self.password_file is None):
            raise ValueError("basic authentication needs both username and password(_file)")
        return self

    @property
    def has_token(self) -> bool:
        """Whether a token is configured."""
        return self.token is not None or self.token_file is not None

    @property
    def is_set(self) -> bool:
        """Whether requests carry credentials."""
        return self.has_token or self.username is not None

    def read_token(self) -> str:
        """Return the token, read again from its file so that a rotated one is picked up.

        Raises:
            ConfigError: The file cannot be read or is empty.
        """
        return read_secret(self.token, self.token_file, "token_file")

    def read_password(self) -> str:
        """Return the password, read again from its file.

        Raises:
            ConfigError: The file cannot be read or is empty.
        """
        password = read_secret(self.password, self.password_file, "password_file")
        register(f"{self.username}:{password}")
        return password


def read_secret(value: SecretStr | None, path: Path | None, key: str) -> str:
    """Return a secret of the configuration, or of a file that it names.

    Args:
        value: It itself.
        path: The file.
        key: Name of the setting that names the file.
    Raises:
        ConfigError: The file cannot be read or is empty.
    """
    if value is not None:
        return _registered(value.get_secret_value())
    try:
        text = path.read_text().strip() if path is not None else ""
    except (OSError, UnicodeDecodeError) as exc:
        raise ConfigError(
            f"The file named by {key} cannot be read: {path}.",
            hint="Check its path, its owner and its mode.",
        ) from exc
    if not text:
        raise ConfigError(
            f"The file named by {key} is empty: {path}.", hint="Write the secret into the file."
        )
    return _registered(text)


def _registered(secret: str) -> str:
    """Have the secret, and each part of ``user:password``, replaced in whatever comes back."""
    register(secret)
    if ":" in secret:
        register(secret.partition(":")[2])
    return secret


class Tls(Strict):
    """TLS towards the admin interface.

    Attributes:
        ca_file: Certificates to trust instead of the system's.
        cert_file: Our certificate, for mutual TLS.
        key_file: Its key.
        verify: Whether the broker's certificate is checked; every snapshot says when it is not.
    """

    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None
    verify: bool = True

    @model_validator(mode="after")
    def _pair(self) -> Tls:
        if (self.cert_file is None) != (self.key_file is None):
            raise ValueError("mutual TLS needs both cert_file and key_file")
        return self


class ZooKeeperAuth(Strict):
    """Digest authentication towards ZooKeeper.

    Attributes:
        digest: ``user:password``.
        digest_file: A file that holds it.
    """

    digest: SecretStr | None = None
    digest_file: Path | None = None

    def credential(self) -> str:
        """Return ``user:password``.

        Raises:
            ConfigError: There is none, or it does not read ``user:password``.
        """
        found = read_secret(self.digest, self.digest_file, "digest_file")
        if ":" not in found:
            raise ConfigError(
                "The ZooKeeper credential has no colon.", hint="Use the form user:password."
            )
        return found
