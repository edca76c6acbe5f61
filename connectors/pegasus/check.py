"""Does the configuration of a Pegasus cluster work? Every meta server is tried."""

from __future__ import annotations

from connectors.check import CheckResult, fault
from connectors.config.model import ClusterConfig
from connectors.pegasus.rpc.client import MetaClient
from core.errors import OpsError


def check_cluster(config: ClusterConfig) -> list[CheckResult]:
    """Read from each meta server who leads, then the leader for its nodes; never raises."""
    results = []
    for address in config.meta_servers:
        what = f"Meta server {address}"
        client = MetaClient(
            [address], timeout_s=config.timeouts.answer_s, max_bytes=config.read_limits.answer_bytes
        )
        try:
            nodes, info = client.fetch_nodes(), client.fetch_cluster_info()
        except OpsError as exc:
            results.append(fault(what, exc))
            continue
        finally:
            client.close()
        alive = sum(node.is_alive for node in nodes)
        detail = (
            f"{info.leader} is the leader; {alive} of {len(nodes)} nodes alive, level "
            f"{info.level_word}."
        )
        results.append(CheckResult(what=what, ok=True, detail=detail))
    return results
