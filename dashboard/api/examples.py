"""Examples of requests and answers, for the description.

They are answers about a small generated cluster, with two elements of each longer list.
``tests/unit/dashboard/api/test_api_examples.py`` writes and verifies the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import msgspec

FILE: Final = Path(__file__).with_name("examples.json")


class Example(msgspec.Struct, frozen=True):
    """A request with its answer.

    Attributes:
        query: Parameters by name.
        answer: JSON of the answer.
    """

    query: dict[str, Any]
    answer: dict[str, Any]


@lru_cache(maxsize=1)
def examples() -> Mapping[str, Example]:
    """Return the examples by name of the operation."""
    return msgspec.json.decode(FILE.read_bytes(), type=dict[str, Example])
