"""Whether a broker serves a bundle: every case, healthy ones included, and what is to be done."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from claims import claimed, unheard, with_claims
from fleet_builder import NOON, make_snapshot
from fleet_edit import edited, owned_by, without

from core.findings.finding import Finding
from core.pulsar import owners
from core.pulsar.lookup import lookup_topic
from core.pulsar.owners import ownership_of
from core.pulsar.rules.registry import assess
from core.pulsar.served import Service, service_of, unregistered_words
from core.pulsar.settings import effective_settings
from core.schemas.pulsar import ADDED_LATER, UNIT_STATES
from core.snapshot import PulsarSnapshot
from core.snapshot.store import load_snapshot, save_snapshot
from core.units import datetime_to_ms

NOW_MS = datetime_to_ms(NOON)
MINUTE_MS = 60_000


@lru_cache(maxsize=1)
def fleet() -> PulsarSnapshot:
    return claimed(make_snapshot(brokers=4, bundles=40))


def owner() -> str:
    return str(fleet().brokers["broker"][0].as_py())


def bundle() -> str:
    return owned_by(fleet(), owner())[0]


def served(snapshot: PulsarSnapshot, name: str = "") -> Service:
    found = service_of(snapshot, effective_settings(snapshot), name or bundle())
    assert found is not None
    return found


def with_claim(snapshot: PulsarSnapshot, **changes: Any) -> PulsarSnapshot:
    """Change the znode of the bundle."""
    rows = snapshot.claims.to_pylist()
    for row in rows:
        if row["subject"] == bundle():
            row.update(changes)
    return with_claims(snapshot, rows)


def disabled(age_ms: int | None, **changes: Any) -> PulsarSnapshot:
    at = None if age_ms is None else NOW_MS - age_ms
    return with_claim(fleet(), is_disabled=True, modified_at=at, **changes)


def finding(snapshot: PulsarSnapshot, code: str) -> Finding | None:
    return next((one for one in assess(snapshot) if one.code == code), None)


def test_a_held_bundle_is_served() -> None:
    found = served(fleet())
    assert (found.is_served, found.since, found.why_not, found.fix) == (True, None, "", "")


@pytest.mark.parametrize("age_ms", [0, 10_000, MINUTE_MS])
def test_an_unload_that_began_just_now_is_no_problem(age_ms: int) -> None:
    found = served(disabled(age_ms))
    assert (found.state, found.is_served, found.fix) == (owners.CHANGING, False, "")
    assert "within a minute" in found.next_lookup
    assert finding(disabled(age_ms), "refused_bundles") is None


@pytest.mark.parametrize("age_ms", [MINUTE_MS + 1_000, 95 * MINUTE_MS, 9 * 24 * 60 * MINUTE_MS])
def test_an_unload_that_did_not_end_refuses_clients(age_ms: int) -> None:
    snapshot = disabled(age_ms)
    found = served(snapshot)
    assert (found.state, found.is_served) == (owners.REFUSED, False)
    assert (found.since, found.age_s) == (NOW_MS - age_ms, age_ms / 1000)
    assert found.next_lookup.startswith("Every lookup is refused: IllegalStateException")
    assert found.fix.startswith(f"Restart {owner()}")
    assert "Do not delete the znode" in found.fix
    problem = finding(snapshot, "refused_bundles")
    assert problem is not None
    assert (problem.severity, problem.area, problem.subject) == ("error", "serving", bundle())
    assert problem.cost.bundles == 1
    assert problem.since is not None
    assert datetime_to_ms(problem.since) == NOW_MS - age_ms


def test_without_a_time_of_change_an_unload_may_be_under_way() -> None:
    problem = finding(disabled(None), "refused_bundles")
    assert problem is not None
    assert (problem.severity, problem.since) == ("warning", None)
    assert problem.hint.startswith("An unload may be in progress: check again")
    assert served(disabled(None)).age_s is None


def test_a_disabled_znode_that_no_session_ends_may_go_only_once_its_broker_is_dead() -> None:
    alive = disabled(95 * MINUTE_MS, session_id=0)
    assert "delete /namespace" not in served(alive).fix
    found = served(unheard(alive, owner()))
    assert found.state == owners.REFUSED
    assert f"delete /namespace/{bundle()}" in found.fix


def test_no_fix_deletes_a_znode_of_a_living_broker() -> None:
    unlisted = without(fleet(), "brokers", owner())
    found = served(unlisted)
    assert (found.state, found.is_served) == (owners.UNLISTED, True)
    assert (
        found.fix
        == f"Restart {owner()} so that it registers; do not delete its znodes: it is alive."
    )


def unit(state: str, age_ms: int, **changes: Any) -> PulsarSnapshot:
    manifest = fleet().manifest
    row = {"bundle": bundle(), "state": state, "broker": owner(), "changed_at": NOW_MS - age_ms}
    tables = {
        **fleet().tables,
        "claims": fleet().claims.slice(0, 0),
        "unit_states": pa.Table.from_pylist([row | changes], schema=UNIT_STATES),
    }
    return PulsarSnapshot.build(manifest, tables)


@pytest.mark.parametrize(
    ("state", "age_ms", "expected", "is_served"),
    [
        ("Owned", 95 * MINUTE_MS, owners.HELD, True),
        ("Releasing", 5_000, owners.CHANGING, False),
        ("Releasing", 240_000, owners.STUCK, False),
        ("Assigning", 55_000, owners.STUCK, False),
        ("Splitting", 5_000, owners.CHANGING, True),
        ("Splitting", 600_000, owners.STUCK, True),
        ("Deleted", 5_000, owners.CHANGING, False),
        ("Deleted", 95 * MINUTE_MS, owners.REFUSED, False),
    ],
)
def test_states_of_the_channel(state, age_ms, expected, is_served):
    found = served(unit(state, age_ms))
    assert (found.state, found.is_served) == (expected, is_served)
    assert bool(found.why_not) == (not is_served)


def test_a_bundle_that_waits_for_its_first_lookup_is_unassigned() -> None:
    quiet = {"topic_count": 0, "msg_throughput_in": 0.0, "msg_throughput_out": 0.0}
    free = edited(fleet(), "bundles", {bundle(): {"owner": None, "reported_by": None} | quiet})
    found = served(free)
    assert (found.state, found.is_served) == (owners.UNUSED, False)
    assert found.next_lookup == "The next lookup assigns it."
    assert not found.is_problem


def bound(name: str, holder: str) -> PulsarSnapshot:
    """Add a heartbeat or SLA bundle."""
    namespace = name.rpartition("/")[0]
    row = {
        "bundle": name,
        "namespace": namespace,
        "lower": 0,
        "upper": 0xFFFFFFFF,
        "owner": holder,
        "owner_source": "ownership",
        "is_broker_bound": True,
    }
    rows = pa.Table.from_pylist([row], schema=fleet().bundles.schema)
    more = {"bundles": pa.concat_tables([fleet().bundles, rows])}
    return PulsarSnapshot.build(fleet().manifest, {**fleet().tables, **more})


def test_a_heartbeat_bundle_belongs_to_the_broker_in_its_name() -> None:
    other = str(fleet().brokers["broker"][1].as_py())
    name = f"pulsar/c1/{owner()}/0x00000000_0xffffffff"
    assert served(bound(name, owner()), name).state == owners.HELD
    wrong = bound(name, other)
    assert served(wrong, name).state == owners.MISBOUND
    problem = finding(wrong, "bound_elsewhere")
    assert problem is not None
    assert (problem.severity, problem.servers) == ("warning", (other,))
    assert f"Unload {name} from {other}" in problem.hint


def test_the_sla_bundle_of_a_broker_that_is_down_may_be_anywhere() -> None:
    other = str(fleet().brokers["broker"][1].as_py())
    down = "sla-monitor/c1/b-99:8080/0x00000000_0xffffffff"
    assert served(bound(down, other), down).state == owners.HELD
    up = f"sla-monitor/c1/{owner()}/0x00000000_0xffffffff"
    assert served(bound(up, other), up).state == owners.MISBOUND


def test_lookup_says_that_clients_connect_only_where_a_broker_serves() -> None:
    snapshot = disabled(95 * MINUTE_MS)
    space = bundle().rpartition("/")[0]
    names = (f"persistent://{space}/t{number}" for number in range(2_000))
    topic = next(name for name in names if lookup_topic(snapshot, name).bundle == bundle())
    told = " ".join(step.detail for step in lookup_topic(snapshot, topic).steps)
    assert "clients connect" not in told
    assert "Not served for 95 min" in told
    assert "clients connect" in " ".join(step.detail for step in lookup_topic(fleet(), topic).steps)


def test_a_broker_that_is_only_an_owner_is_known() -> None:
    lost = without(fleet(), "brokers", owner())
    words = unregistered_words(lost, effective_settings(lost), owner())
    assert words.startswith(f"{owner()} is alive, not registered")
    assert "recorded owner of" in words
    assert not unregistered_words(lost, effective_settings(lost), "b-77:8080")
    coming = unit("Assigning", 5_000, broker="b-88:8080")
    words = unregistered_words(coming, effective_settings(coming), "b-88:8080")
    assert words == "b-88:8080 is not registered; 1 bundle in transfer to it. Its usage is unknown."


@pytest.mark.parametrize("unknown", [("leader",), ("broker",), ("leader", "broker")])
def test_a_broker_has_one_line_with_its_session_and_its_lead(unknown: tuple[str, ...]) -> None:
    rows = fleet().claims.to_pylist()
    for row in rows:
        if row["subject_kind"] in unknown:
            row["session_id"] = None
    found = ownership_of(with_claims(fleet(), rows), effective_settings(fleet()))
    names = found.sessions["broker"].to_pylist()
    assert len(names) == len(set(names)) == 4
    leaders = [row for row in found.sessions.to_pylist() if row["leads"]]
    assert [bool(row["session_id"]) for row in leaders] == [True]


def test_a_snapshot_from_before_these_columns_loads_and_keeps_its_id(tmp_path: Path) -> None:
    save_snapshot(fleet(), tmp_path / "old")
    path = tmp_path / "old" / "claims.parquet"
    pq.write_table(pq.read_table(path).drop_columns([*ADDED_LATER["claims"]]), path)
    again = load_snapshot(tmp_path / "old")
    assert again.snapshot_id == fleet().snapshot_id
    assert again.claims["is_disabled"].null_count == again.claims.num_rows
    assert served(again).state == owners.HELD
    assert disabled(None).snapshot_id != fleet().snapshot_id
