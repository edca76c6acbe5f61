"""The API token with which a program or the command line signs in."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from core.errors import ForbiddenError

TOKEN_ENV: Final = "TRIMTAB_TOKEN"  # noqa: S105  # the name of a variable
"""Has the API token."""

TOKEN_FILE_ENV: Final = "TRIMTAB_TOKEN_FILE"  # noqa: S105  # the same
"""Names a file with the token, instead."""


def token_of_environment() -> str:
    """Return the API token of the environment; empty: there is none.

    Raises:
        ForbiddenError: The file with it cannot be read.
    """
    text, file = os.environ.get(TOKEN_ENV, ""), os.environ.get(TOKEN_FILE_ENV, "")
    if text or not file:
        return text.strip()
    try:
        return Path(file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as exc:
        raise ForbiddenError(
            f"Could not read the API token file {file}.",
            hint=f"Correct {TOKEN_FILE_ENV}, or its owner and mode.",
        ) from exc
