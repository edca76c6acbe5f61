"""What the real classes answered, as one digest a case: small enough to be kept with the tests.

    .venv/bin/python tests/parity/golden_digests.py

asks the jars that :mod:`pulsar_jars` finds, and writes ``golden/transfer-*.json`` and
``golden/split-*.json`` anew.
"""

from __future__ import annotations

import functools
import hashlib
import json
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parent.parent))

from placement_driver import ask_real_classes
from pulsar_jars import PULSAR_VERSION, SkipReason, pulsar_jars
from split_cases import SPLIT_SEEDS, Case, split_answer, split_case
from transfer_fleets import TRANSFER_SEEDS, make_transfer_fleet, transfer_answer

_FOLDER: Final = Path(__file__).parent / "golden"


def digest(answer: Any) -> str:
    """Return a short digest of an answer in its canonical form."""
    return hashlib.sha256(json.dumps(answer, sort_keys=True).encode()).hexdigest()[:12]


@functools.cache
def load_digests(name: str) -> dict[str, str]:
    """Return ``{seed: digest}`` of ``transfer`` or ``split``."""
    path = _FOLDER / f"{name}-{PULSAR_VERSION}.json"
    held: dict[str, str] = json.loads(path.read_text(encoding="utf-8"))["digests"]
    return held


def ask_digests(name: str, seeds: list[int], folder: Path) -> dict[str, str]:
    """Ask the real classes, and return ``{seed: digest}``."""
    if name == "transfer":
        fleets = [make_transfer_fleet(seed) for seed in seeds]
        told = ask_real_classes((fleet.case() for fleet in fleets), folder, "TransferDriver")
        pairs = zip(fleets, told, strict=True)
        return {str(fleet.seed): digest(transfer_answer(fleet, real)) for fleet, real in pairs}
    cases: list[Case] = [split_case(seed)[0] for seed in seeds]
    told = ask_real_classes(cases, folder, "SplitDriver")
    return {
        str(seed): digest(split_answer(case, real))
        for seed, case, real in zip(seeds, cases, told, strict=True)
    }


def main() -> None:
    """Write both files."""
    jars = pulsar_jars()
    if isinstance(jars, SkipReason):
        sys.exit(jars)
    for name, seeds in (("transfer", TRANSFER_SEEDS), ("split", SPLIT_SEEDS)):
        with tempfile.TemporaryDirectory() as folder:
            digests = ask_digests(name, list(seeds), Path(folder))
        path = _FOLDER / f"{name}-{PULSAR_VERSION}.json"
        text = json.dumps({"release": PULSAR_VERSION, "digests": digests}, indent=0)
        path.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
