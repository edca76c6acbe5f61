"""What is expensive and belongs to one folder ends when the tests of another folder begin.

Not after its last test: that one may be run again.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

_ENDS = pytest.StashKey[dict[Path, Callable[[], None]]]()


def end_with_folder(config: pytest.Config, folder: Path, end: Callable[[], None]) -> None:
    """Call ``end`` once, before the first test outside of ``folder``."""
    config.stash.setdefault(_ENDS, {})[folder] = end


def end_what_others_left(item: pytest.Item) -> None:
    ends = item.config.stash.get(_ENDS, {})
    for folder in [one for one in ends if one not in item.path.parents]:
        ends.pop(folder)()
