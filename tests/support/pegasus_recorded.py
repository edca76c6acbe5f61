"""Replies of a real meta server, and which of them answers which call."""

from __future__ import annotations

from pathlib import Path
from typing import Final

RECORDED: Final = Path(__file__).parents[1] / "fixtures" / "pegasus" / "thft"

BY_CALL: Final = {
    "RPC_CM_LIST_NODES": "list_nodes_all",
    "RPC_CM_LIST_APPS": "list_apps_all",
    "RPC_CM_QUERY_PARTITION_CONFIG_BY_INDEX": "query_cfg_temp",
    "RPC_CM_CLUSTER_INFO": "cluster_info",
    "RPC_CM_CONTROL_META": "control_meta_get",
    "RPC_CM_DDD_DIAGNOSE": "ddd_all",
    "RPC_CLI_CLI_CALL": "cli_lb_count",
}
"""By name of the call: the recorded reply of the cluster of our own, without its suffix."""
