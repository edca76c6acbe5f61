"""Acting on a Pegasus cluster: the same on the sandbox and on a real one that may be changed."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from pegasus_site import PegasusSite, move

from connectors.sandbox.pegasus.fleet import PegasusOptions, PegasusSandbox
from core.pegasus.steps.level import LEVEL_KEY, SetMetaLevel
from core.pegasus.steps.setting import SetServerSetting

META_ENV = "TRIMTAB_PEGASUS_META"
DELAY = "meta.lb.assign_delay_ms"
FAST = PegasusOptions(tick_s=0.2, learn_mb_per_s=20_000)


@pytest.fixture(scope="module", params=["sandbox", *(["real"] if META_ENV in os.environ else [])])
def site(request: pytest.FixtureRequest) -> Iterator[PegasusSite]:
    if request.param == "real":
        real = PegasusSite.of(os.environ[META_ENV].split(","))
        yield real
        real.close()
        return
    with PegasusSandbox(FAST) as sandbox:
        here = PegasusSite.of(sandbox.meta_servers)
        yield here
        here.close()


def level_step(site: PegasusSite, level: str) -> SetMetaLevel:
    return SetMetaLevel(before=site.client.fetch_stored_level().word, level=level)


def test_a_primary_moves_to_a_secondary_and_back(site: PegasusSite) -> None:
    table, config = site.some()
    source, target = str(config.primary), config.secondaries[0]
    there = site.act(move(table, config, "move_pri", source, target))
    assert there.result is not None
    assert (there.result.state, there.result.code) == ("DONE", "moved")
    moved = site.partition(table, config.gpid)
    assert moved.primary == target
    assert moved.ballot >= config.ballot + 2
    back = site.act(move(table, moved, "move_pri", target, source))
    assert back.result is not None
    assert back.result.state == "DONE"
    assert site.partition(table, config.gpid).primary == source


def test_the_level_is_set_and_set_back(site: PegasusSite) -> None:
    was = site.client.fetch_stored_level().word
    other = "steady" if was != "steady" else "freezed"
    acted = site.act(level_step(site, other))
    try:
        assert acted.result is not None
        assert acted.result.state == "DONE"
        assert site.cluster.dynamic_setting(LEVEL_KEY) == other
    finally:
        site.cluster.set_dynamic_setting(LEVEL_KEY, was)
    assert site.client.fetch_stored_level().word == was


def test_a_setting_is_set_read_and_set_back(site: PegasusSite) -> None:
    was = site.cluster.dynamic_setting(DELAY)
    assert was is not None
    acted = site.act(SetServerSetting(key=DELAY, before=was, value="123456"))
    try:
        assert acted.result is not None
        assert acted.result.state == "DONE"
        assert site.cluster.dynamic_setting(DELAY) == "123456"
    finally:
        site.cluster.set_dynamic_setting(DELAY, was)
    assert site.cluster.dynamic_setting(DELAY) == was


def test_a_flag_of_the_leader_is_set_and_set_back(site: PegasusSite) -> None:
    key = "balance_op_count_per_round"
    was = site.cluster.dynamic_setting(key)
    assert was is not None
    step = SetServerSetting(key=key, how="flag", before=was, value=str(int(was) + 1))
    acted = site.act(step)
    try:
        assert acted.result is not None
        assert acted.result.state == "DONE"
        assert site.cluster.dynamic_setting(key) == str(int(was) + 1)
    finally:
        site.cluster.set_dynamic_setting(key, was)
    assert site.cluster.dynamic_setting(key) == was
