"""What the real shedding classes picked on the generated fleets, as it is kept in the repository.

    .venv/bin/python tests/parity/shedding_golden.py

writes the files anew with the jars that :mod:`pulsar_jars` finds (set ``TRIMTAB_PULSAR_JARS`` for
those of another release). Small fleets are kept move by move, so that a difference can be read;
of large ones a digest is kept.
"""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
sys.path.insert(0, str(Path(__file__).parent.parent.parent))

from placement_driver import ask_real_classes
from pulsar_jars import PULSAR_VERSION, SkipReason, pulsar_jars
from shedding_fleets import STRATEGIES, Fleet, make_fleet

from core.pulsar.releases import Release

FOLDER: Final = Path(__file__).parent / "golden"
FLEETS: Final = 400
OLD_FLEETS: Final = 150
_READABLE: Final = 6

Round = list[list[Any]]
"""``[[broker, [bundle, ...]], ...]``, in the order of the real class's answer."""


def golden_path(release: str) -> Path:
    """Return the file of a release."""
    return FOLDER / f"shedding-{release}.json"


def load_golden(release: str) -> dict[str, Any]:
    """Return ``{"release", "fleets", "answers": {seed: {strategy: compact answer}}}``."""
    held: dict[str, Any] = json.loads(golden_path(release).read_text(encoding="utf-8"))
    return held


def compact(fleet: Fleet, rounds: list[Round]) -> list[Any] | str:
    """Return an answer as it is kept: positions in the sorted names, or a digest of that.

    A round equal to the one before is kept as 0.
    """
    brokers = {name: at for at, name in enumerate(sorted(fleet.loads[0].reports))}
    bundles = {name: at for at, name in enumerate(sorted(fleet.loads[0].rates))}
    numbered = [
        [[brokers[entry[0]], [bundles[name] for name in entry[1]]] for entry in done]
        for done in rounds
    ]
    folded = [0 if at and done == numbered[at - 1] else done for at, done in enumerate(numbered)]
    if len(brokers) <= _READABLE:
        return folded
    return hashlib.sha256(json.dumps(folded).encode()).hexdigest()[:16]


def line_of(release: str) -> str:
    """Return the release line: ``4.0`` of ``4.0.8``."""
    return release.rpartition(".")[0]


def strategies_of(version: str) -> tuple[str, ...]:
    """Return the strategies that a release has, in the order in which they are asked."""
    return tuple(name for name in STRATEGIES if Release.of(version).has_class(name))


def ask(seeds: Sequence[int], folder: Path, version: str = "") -> dict[int, dict[str, list[Round]]]:
    """Return ``{seed: {strategy: rounds}}`` of the real classes.

    Args:
        seeds: Of the fleets.
        folder: Where the cases go.
        version: Release whose classes are asked; empty: that of the jars at hand, as 4.2.
    """
    line = line_of(version) if version else "4.2"
    names = strategies_of(version) if version else STRATEGIES
    told = ask_real_classes(
        (make_fleet(seed, line).case(names) for seed in seeds), folder, "SheddingDriver", version
    )
    return {
        seed: dict(zip(names, answer["answers"], strict=True))
        for seed, answer in zip(seeds, told, strict=True)
    }


def main() -> None:
    """Write the golden files of the versions that are named, or of the jars at hand."""
    if len(sys.argv) > 1:
        for version in sys.argv[1:]:
            write_golden(version, OLD_FLEETS)
        return
    jars = pulsar_jars()
    if isinstance(jars, SkipReason):
        sys.exit(jars)
    write_golden(next(jars.glob("pulsar-broker-[0-9]*.jar")).stem.rpartition("-")[2], FLEETS)


def write_golden(release: str, fleets: int) -> None:
    """Ask the classes of a release, and write its golden file."""
    version = "" if release == PULSAR_VERSION else release
    with tempfile.TemporaryDirectory() as folder:
        found = ask(range(fleets), Path(folder), version)
    answers = {
        seed: {
            name: compact(make_fleet(seed, line_of(release)), rounds)
            for name, rounds in by_name.items()
        }
        for seed, by_name in found.items()
    }
    body = {"release": release, "fleets": fleets, "answers": answers}
    FOLDER.mkdir(exist_ok=True)
    golden_path(release).write_text(json.dumps(body, separators=(",", ":")) + "\n", "utf-8")


if __name__ == "__main__":
    main()
