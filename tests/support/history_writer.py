"""A process that records minutes until it is killed; it tells each one when it is recorded.

``python history_writer.py HISTORY FIRST``: the number of the first minute. It writes
``<number> <snapshot id>`` after :meth:`Recorder.record` has returned.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from history_worlds import minute_of

from core.history.store.store import HistoryLocation, HistoryStore
from core.history.store.writer import Recorder


def main() -> None:
    folder, first = sys.argv[1], int(sys.argv[2])
    recorder = Recorder(HistoryStore(HistoryLocation(folder)), "fleet")
    number = first
    while True:
        snapshot = minute_of(number)
        recorder.record(snapshot)
        sys.stdout.write(f"{number} {snapshot.snapshot_id}\n")
        sys.stdout.flush()
        number += 1


main()
