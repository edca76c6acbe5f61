"""The order within one bucket of Java's map, from the few keys that decide it."""

from __future__ import annotations

import numpy as np
import pytest
from fleet_builder import make_snapshot

from core.pulsar.java.maps import (
    concurrent_bucket,
    concurrent_buckets,
    concurrent_order,
    shared_bucket,
)
from core.pulsar.settings import EffectiveSettings
from core.pulsar.shedding import basis
from core.pulsar.view import LoadView


@pytest.mark.parametrize("count", [1, 5, 11, 12, 13, 24, 100, 1_000, 12_287, 12_288])
@pytest.mark.parametrize("mask", [0xFFFFFFFF, 0x00F0F0FF], ids=["spread", "concentrated"])
def test_a_bucket_is_ordered_as_in_the_whole_map(count, mask):
    spread = np.random.default_rng(count).integers(0, 2**32, count) & mask
    slots = spread & (concurrent_buckets(count) - 1)
    inserted = np.arange(count)
    whole = concurrent_order(spread)
    for bucket in np.unique(slots)[:60].tolist():
        shared = np.flatnonzero(shared_bucket(spread, inserted, count, bucket))
        order = concurrent_bucket(spread[shared], inserted[shared], count, bucket)
        assert shared[order].tolist() == whole[slots[whole] == bucket].tolist()


def test_few_keys_ever_share_a_bucket_of_a_large_map():
    spread = np.random.default_rng(1).integers(0, 2**32, 1_000_000)
    bucket = int(spread[0]) & (concurrent_buckets(spread.size) - 1)
    assert shared_bucket(spread, np.arange(spread.size), spread.size, bucket).sum() < 60


@pytest.mark.parametrize("bundles", [300, 6_000])
def test_equal_bundles_are_ordered_as_with_the_whole_map(bundles, monkeypatch):
    """However few of its buckets are looked at."""
    snapshot = make_snapshot(brokers=12, bundles=bundles, seed=bundles)
    view = LoadView.of(snapshot, EffectiveSettings.defaults())
    whole, few = basis.SheddingBasis(view), basis.SheddingBasis(view)
    rows = np.concatenate([whole.bundles_of(broker) for broker in range(12)])
    every_other = np.arange(rows.size) % 2.0
    monkeypatch.setattr(basis, "_LARGE", 10**9)
    expected = [whole.falling(rows, keys).tolist() for keys in (every_other, every_other * 0)]
    monkeypatch.setattr(basis, "_LARGE", 0)
    monkeypatch.setattr(basis, "_MAX_BUCKETS", 10**9)
    found = [few.falling(rows, keys).tolist() for keys in (every_other, every_other * 0)]
    assert found == expected
    assert few.__dict__.keys() >= {"_orders"}
    assert "_insertion_ranks" not in few.__dict__
