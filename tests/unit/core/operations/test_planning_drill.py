"""The failure drill: bundles go where the leader puts them, and what is hot or homeless is told."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest
from extensible_world import cluster
from fleet_builder import make_snapshot
from pegasus_snapshots import generated, part_row, snapshot_of, whole

from core.errors import IncompleteSnapshotError, InputError, UnknownNameError
from core.operations.drill.pegasus import drill_nodes
from core.operations.drill.placing import Loss, lost_bundles, place_losses
from core.operations.drill.pulsar import drill, drill_of, groups_of, losses_of, simulate_losses
from core.operations.drill.request import DrillRequest
from core.pegasus.snapshot import PegasusFacts
from core.progress import NoProgress
from core.pulsar.facts import PulsarFacts
from core.pulsar.settings import effective_settings
from core.pulsar.view import LoadView
from core.simulation.managers import ModularManager
from core.snapshot import PulsarSnapshot

PAIRS = (
    ("ThresholdShedder", "LeastLongTermMessageRate"),
    ("ThresholdShedder", "LeastResourceUsageWithWeight"),
    ("ThresholdShedder", "RoundRobinBrokerSelector"),
    ("AvgShedder", "AvgShedder"),
)


@pytest.fixture(scope="module")
def fleet() -> PulsarSnapshot:
    return make_snapshot()


@pytest.fixture(scope="module")
def small() -> PulsarSnapshot:
    return make_snapshot(brokers=5, bundles=60)


def all_losses(view: LoadView) -> list[Loss]:
    return losses_of(view, DrillRequest())


@pytest.mark.parametrize("evenly", [True, False])
@pytest.mark.parametrize(("shedding", "placement"), PAIRS)
def test_losses_together_go_where_lookups_one_after_the_other_go(
    small, shedding, placement, evenly
):
    settings = effective_settings(
        small,
        overrides={
            "loadBalancerLoadSheddingStrategy": shedding,
            "loadBalancerLoadPlacementStrategy": placement,
            "loadBalancerDistributeBundlesEvenlyEnabled": evenly,
            "failureDomainsEnabled": True,
        },
    )
    view = LoadView.of(small, settings)
    losses = all_losses(view)
    manager = ModularManager(settings)
    for loss, landed in zip(losses, place_losses(view, settings, losses, 1), strict=True):
        rows, draws = lost_bundles(view, loss, 1)
        assert landed.bundles.tolist() == rows.tolist()
        left = np.ones(len(view.brokers), np.bool_)
        left[list(loss.rows)] = False
        placed: dict[str, str] = {}
        for row, draw, end in zip(rows.tolist(), draws.tolist(), landed.ends.tolist(), strict=True):
            found = manager.lookup(view, row, placed, left)
            chances = np.cumsum([found.get(name, 0.0) for name in view.brokers])
            assert view.brokers[end] == view.brokers[int(np.argmax(chances > draw * chances[-1]))]
            placed[str(view.bundles[row])] = view.brokers[end]


def test_what_is_asked_with_a_loss_does_not_change_it(small):
    settings = effective_settings(small)
    view = LoadView.of(small, settings)
    losses = all_losses(view)
    together = place_losses(view, settings, losses, 1)
    for loss, landed in zip(losses, together, strict=True):
        alone = place_losses(view, settings, [loss], 1)[0]
        assert alone.ends.tolist() == landed.ends.tolist()


def test_answers_of_groups_make_the_same_answer(fleet):
    settings, wish = effective_settings(fleet), DrillRequest(hot_threshold=0.5)
    whole_answer = drill(PulsarFacts(fleet), wish, NoProgress())
    losses = losses_of(LoadView.of(fleet, settings), wish)
    parts = [simulate_losses(fleet, settings, [loss], wish) for loss in reversed(losses)]
    apart = drill_of(parts, wish)
    assert apart.failures.equals(whole_answer.failures)
    assert apart.hot.equals(whole_answer.hot)
    assert apart.groups.equals(whole_answer.groups)
    assert apart.answer == whole_answer.answer
    groups = groups_of(LoadView.of(fleet, settings), losses)
    assert [loss for group in groups for loss in group] == losses


def test_every_bundle_of_a_lost_broker_lands_on_one_that_is_left(fleet):
    settings = effective_settings(fleet)
    view = LoadView.of(fleet, settings)
    done = drill(PulsarFacts(fleet), DrillRequest(), NoProgress())
    owned = dict.fromkeys(view.brokers, 0)
    for owner, bound in zip(view.owner.tolist(), view.is_broker_bound.tolist(), strict=True):
        owned[view.brokers[owner]] += not bound
    for row in done.failures.to_pylist():
        if row["kind"] == "broker":
            assert row["bundles"] == owned[row["failure"]]
            assert row["hottest"] != row["failure"]
    assert done.failures.num_rows == len(view.brokers) + 3


def test_a_namespace_whose_brokers_are_all_lost_is_told_as_homeless(fleet):
    """Isolation leaves the namespace two brokers of one domain, and no secondary."""
    hosts = [name.rpartition(":")[0] for name in fleet.brokers["broker"].to_pylist()[0:4:3]]
    body = {
        "namespaces": ["acme/.*"],
        "primary": hosts,
        "secondary": [],
        "auto_failover_policy": {
            "policy_type": "min_available",
            "parameters": {"min_limit": "1", "usage_threshold": "80"},
        },
    }
    rows = [{"kind": "isolation", "name": "two", "body": json.dumps(body)}]
    own = [row for row in fleet.policies.to_pylist() if row["kind"] == "failure_domain"]
    policies = pa.Table.from_pylist([*own, *rows], schema=fleet.policies.schema)
    narrow = PulsarSnapshot.build(fleet.manifest, {**fleet.tables, "policies": policies})
    done = drill(PulsarFacts(narrow), DrillRequest(), NoProgress())
    worst = done.failures.to_pylist()[0]
    assert worst["failure"] == "zone-a"
    assert worst["unassigned"] > 0
    assert worst["groups_without_broker"] == 1
    group = done.groups.to_pylist()[0]
    assert (group["failure"], group["group"], group["brokers_left"]) == ("zone-a", "two", 0)
    assert not group["has_room"]
    assert "stay unassigned" in done.answer


def test_the_line_from_which_a_broker_is_hot_is_given(fleet):
    cool = drill(PulsarFacts(fleet), DrillRequest(hot_threshold=5.0), NoProgress())
    assert cool.hot.num_rows == 0
    assert "no broker hot" in cool.answer
    warm = drill(PulsarFacts(fleet), DrillRequest(hot_threshold=0.3), NoProgress())
    assert all(row["usage_after"] >= 0.3 for row in warm.hot.to_pylist())
    assert warm.hot.num_rows > 0


def test_names_that_are_not_there_are_refused(fleet):
    with pytest.raises(UnknownNameError):
        drill(PulsarFacts(fleet), DrillRequest(only=("10.1.0.99:8080",)), NoProgress())
    with pytest.raises(InputError):
        drill(PulsarFacts(fleet), DrillRequest(brokers=False, domains=False), NoProgress())
    one = drill(PulsarFacts(fleet), DrillRequest(only=("zone-b",)), NoProgress())
    assert one.failures["failure"].to_pylist() == ["zone-b"]


def test_a_cluster_of_the_extensible_manager_is_played_too():
    view, settings = cluster({"a:1": (0.9, [5.0, 6.0]), "b:1": (0.2, [1.0]), "c:1": (0.1, [1.0])})
    landed = place_losses(view, settings, [Loss("a:1", "broker", (0,))], 1)[0]
    assert set(landed.ends.tolist()) <= {1, 2}


def test_a_lost_node_hands_its_primaries_to_the_secondary_that_leads_least():
    parts = [part_row(2, at, "db1:34801", ["db2:34801", "db3:34801"]) for at in range(4)]
    done = drill_nodes(PegasusFacts(snapshot_of(whole(parts))), DrillRequest(), NoProgress())
    first = next(row for row in done.nodes.to_pylist() if row["node"] == "db1:34801")
    assert (first["primaries"], first["taken"], first["without_primary"]) == (4, 2, 0)
    assert first["moved_rate"] == pytest.approx(4 * 6.0)
    assert "can fail" in done.answer


def test_partitions_on_one_node_alone_are_told_as_lost():
    parts = [part_row(2, 0, "db1:34801"), part_row(2, 1, "db2:34801", ["db1:34801"])]
    done = drill_nodes(
        PegasusFacts(snapshot_of(whole(parts, tables=None) | {"tables": [table_of_two()]})),
        DrillRequest(),
        NoProgress(),
    )
    worst = done.nodes.to_pylist()[0]
    assert (worst["node"], worst["without_primary"], worst["without_writes"]) == ("db1:34801", 1, 1)
    assert "no primary" in done.answer


def table_of_two() -> dict[str, object]:
    return whole()["tables"][0] | {"partition_count": 2}


def test_loads_of_nodes_are_conserved_when_all_primaries_find_a_taker():
    facts = PegasusFacts(generated(6, 16, 7))
    rows = drill_nodes(facts, DrillRequest(), NoProgress()).nodes.to_pylist()
    assert len(rows) == 7
    assert all(row["without_primary"] == 0 for row in rows)
    assert sum(row["primaries"] for row in rows) == 6 * 16


def test_a_snapshot_without_partitions_cannot_be_drilled():
    with pytest.raises(IncompleteSnapshotError):
        drill_nodes(PegasusFacts(snapshot_of(whole([]))), DrillRequest(), NoProgress())
