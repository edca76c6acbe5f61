"""The collector learns the node order of the sandbox's leader, and forgets it with that leader."""

from __future__ import annotations

import threading

import pytest

from connectors.config.model import ClusterConfig, TrimtabConfig
from connectors.pegasus.collect import PegasusCollector
from connectors.pegasus.rpc.client import MetaClient
from connectors.sandbox.pegasus.fleet import PegasusOptions, PegasusSandbox
from core.pegasus.levels import FunctionLevel
from core.pegasus.order_learning import known_orders
from core.pegasus.snapshot import PegasusFacts
from dashboard import services

PACE = PegasusOptions(tick_s=1.5, learn_mb_per_s=50_000, failover_s=0.3)


@pytest.mark.slow
def test_the_order_is_learned_from_rounds_and_ends_with_its_leader(tmp_path):
    with PegasusSandbox(PACE) as sandbox:
        config = ClusterConfig(
            name="sandbox", kind="pegasus", meta_servers=sandbox.meta_servers, rate_sample_s=0.05
        )
        collector, meta = PegasusCollector(config), MetaClient(sandbox.meta_servers)
        pause = threading.Event()
        try:
            snapshot = collector.collect()
            assert not snapshot.tables["node_orders"].num_rows
            true = sandbox.look(lambda state: state.numbering)
            meta.apply_level(FunctionLevel.LIVELY)
            for _ in range(200):
                snapshot = collector.collect()
                facts = PegasusFacts(snapshot)
                counts = facts.operations
                if snapshot.tables["node_orders"].num_rows and counts and not counts.total:
                    break
                pause.wait(0.1)
            known = known_orders(facts, facts.view().nodes)
            assert known.rounds
            assert known.is_complete
            assert true in known.orders
            assert len(known.orders) < 120

            again = PegasusCollector(config)  # a reader that starts later goes on with it
            again.recall(snapshot)
            assert again.collect().tables["node_orders"].num_rows == len(known.orders)
            again.close()

            assert _orders_of_a_command(config, snapshot, tmp_path) == known.orders

            sandbox.lose_leader()
            for _ in range(100):
                pause.wait(0.1)
                snapshot = collector.collect()
                if snapshot.manifest.leader != known.leader:
                    break
            assert snapshot.manifest.leader != known.leader
            assert not snapshot.tables["node_orders"].num_rows
        finally:
            collector.close()
            meta.close()


def _orders_of_a_command(config, snapshot, state_dir):
    """What a command on a cluster knows: it goes on from the newest saved snapshot, as pages do."""
    trimtab = TrimtabConfig(state_dir=state_dir, clusters=[config])
    fresh = services.snapshot_of(trimtab, config)
    assert not fresh.tables["node_orders"].num_rows
    services.keep(trimtab, snapshot)
    facts = PegasusFacts(services.snapshot_of(trimtab, config))
    return known_orders(facts, facts.view().nodes).orders
