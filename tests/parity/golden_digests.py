"""What the real classes answered, as one digest a case: small enough to be kept with the tests.

    .venv/bin/python tests/parity/golden_digests.py

asks the jars that :mod:`pulsar_jars` finds, and TransferShedder of two older releases, and writes
``golden/transfer-*.json`` and ``golden/split-*.json`` anew.
"""

from __future__ import annotations

import functools
import hashlib
import json
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from placement_driver import ask_real_classes
from pulsar_jars import PULSAR_VERSION, SkipReason, pulsar_jars
from split_cases import SPLIT_SEEDS, Case, split_answer, split_case
from transfer_fleets import (
    OLD_TRANSFER_SEEDS,
    OLD_TRANSFERS,
    TRANSFER_SEEDS,
    make_transfer_fleet,
    transfer_answer,
)

_FOLDER: Final = Path(__file__).parent / "golden"


def digest(answer: Any) -> str:
    """Return a short digest of an answer in its canonical form."""
    return hashlib.sha256(json.dumps(answer, sort_keys=True).encode()).hexdigest()[:12]


@functools.cache
def load_digests(name: str, release: str = PULSAR_VERSION) -> dict[str, str]:
    """Return ``{seed: digest}`` of ``transfer`` or ``split``."""
    path = _FOLDER / f"{name}-{release}.json"
    held: dict[str, str] = json.loads(path.read_text(encoding="utf-8"))["digests"]
    return held


def ask_digests(
    name: str, seeds: list[int], folder: Path, release: str = PULSAR_VERSION
) -> dict[str, str]:
    """Ask the real classes, and return ``{seed: digest}``; only ``transfer`` has older releases."""
    if name == "transfer":
        fleets = [make_transfer_fleet(seed) for seed in seeds]
        version = "" if release == PULSAR_VERSION else release
        cases = (fleet.case() for fleet in fleets)
        told = ask_real_classes(cases, folder, "TransferDriver", version)
        pairs = zip(fleets, told, strict=True)
        return {str(fleet.seed): digest(transfer_answer(fleet, real)) for fleet, real in pairs}
    asked: list[Case] = [split_case(seed)[0] for seed in seeds]
    told = ask_real_classes(asked, folder, "SplitDriver")
    return {
        str(seed): digest(split_answer(case, real))
        for seed, case, real in zip(seeds, asked, told, strict=True)
    }


def main() -> None:
    """Write all files."""
    jars = pulsar_jars()
    if isinstance(jars, SkipReason):
        sys.exit(jars)
    older = [("transfer", release, OLD_TRANSFER_SEEDS) for release in OLD_TRANSFERS]
    newest = [("transfer", PULSAR_VERSION, TRANSFER_SEEDS), ("split", PULSAR_VERSION, SPLIT_SEEDS)]
    for name, release, seeds in (*newest, *older):
        with tempfile.TemporaryDirectory() as folder:
            digests = ask_digests(name, list(seeds), Path(folder), release)
        path = _FOLDER / f"{name}-{release}.json"
        text = json.dumps({"release": release, "digests": digests}, indent=0)
        path.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
