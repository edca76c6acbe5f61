"""A pipeline that rolls up and tidies again and again until it is killed.

Run as a program with the folder of a history and the time now, ms. It writes ``b`` when a turn
begins and ``e`` when it has ended.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from history_rows import CLUSTER, store_in

from core.history.store.layout import HistoryError
from core.history.tiers import pipeline


def main() -> None:
    """Work until the end."""
    folder, now_ms = Path(sys.argv[1]), int(sys.argv[2])
    store = store_in(folder)
    while True:
        os.write(1, b"b")
        try:
            pipeline.roll_up(store, CLUSTER, now_ms)
            pipeline.keep_in_order(store, CLUSTER, now_ms, hours_max_age_days=400)
        except HistoryError as exc:  # too many pipelines at once: a collector tries again, too
            if "at the same time" not in exc.message:
                raise
        os.write(1, b"e")


if __name__ == "__main__":
    main()
