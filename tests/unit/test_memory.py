"""A process gives memory back after large answers in many threads."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

POOLS = """
import ctypes, threading
from connectors.memory import use_few_pools
use_few_pools()

libc = ctypes.CDLL(None)
together = threading.Barrier(12)
def take():
    together.wait()  # all at once: each thread would get a pool of its own
    kept = bytearray(100_000)
    together.wait()
threads = [threading.Thread(target=take) for _ in range(12)]
for thread in threads: thread.start()
for thread in threads: thread.join()
libc.malloc_stats()
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="pools are glibc's")
def test_threads_share_two_pools() -> None:
    done = subprocess.run([sys.executable, "-c", POOLS], capture_output=True, text=True, check=True)
    assert done.stderr.count("Arena ") == 2


def test_what_is_loaded_is_left_out_of_garbage_collection() -> None:
    code = (
        "import gc; from connectors.memory import collect_garbage_seldom as seldom; seldom();"
        "print(gc.isenabled(), gc.get_freeze_count() > 1_000, gc.get_threshold()[0])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "True", "7000"]
