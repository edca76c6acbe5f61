"""The world of the frozen texts, made once in each process."""

from __future__ import annotations

from pathlib import Path

import pytest
from frozen_world import make


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Snapshots, a state folder and plans; who changes it copies it."""
    folder: Path = tmp_path_factory.mktemp("frozen").resolve()
    make(folder)
    return folder
