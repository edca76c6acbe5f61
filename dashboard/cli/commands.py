"""Every command of ``trimtab``: its module, its summary and an example, in the order of ``--help``.

Only names and texts: the lists of commands, suggestions for mistyped names and completion read this
table and import no command. A new command is one module and one line here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple


class CommandEntry(NamedTuple):
    """One command.

    Attributes:
        module: Has the command in its ``app``; imported when the command is used.
        summary: The first line of its help, at most 60 columns.
        example: A command line that works on the demo or on a snapshot of it.
        is_served: Whether ``--server`` sends it to a running Trimtab.
        instead: What does the same with a server; empty: nothing.
    """

    module: str
    summary: str
    example: str
    is_served: bool = False
    instead: str = ""


class Group(NamedTuple):
    """Commands under one name.

    Attributes:
        summary: The first line of its help, at most 60 columns.
        sections: Its commands by heading and name.
        details: Further help; blank: none.
    """

    summary: str
    sections: Mapping[str, Mapping[str, CommandEntry | Group]]
    details: str = ""


OPERATIONS: Final = "core.operations."
"""Begins the modules whose command follows from their operation."""
_CLI: Final = "dashboard.cli"
_PULSAR: Final = f"{_CLI}.pulsar"
_DECISIONS: Final = f"{_PULSAR}.decisions"
_ADVISE: Final = f"{_PULSAR}.advise"
_PEGASUS: Final = f"{_CLI}.pegasus"
_HISTORY: Final = f"{_CLI}.history"

_BUNDLE: Final = "acme/audit/0x40000000_0x80000000"

_RECORDED: Final[Mapping[str, CommandEntry]] = {
    "minutes": CommandEntry(
        f"{_HISTORY}.recorded",
        "List the recorded minutes of a cluster, and the gaps.",
        "trimtab history minutes sandbox --from -1h",
        is_served=True,
    ),
    "events": CommandEntry(
        f"{_HISTORY}.recorded",
        "List events with their causes: moves, splits, settings.",
        "trimtab history events sandbox --from -30min --kind move",
        is_served=True,
    ),
    "trends": CommandEntry(
        f"{_HISTORY}.analysis",
        "Show trends of brokers, bundles, nodes and tables.",
        "trimtab history trends sandbox --by minute --subject brokers",
        is_served=True,
    ),
    "load": CommandEntry(
        f"{_HISTORY}.load",
        "Show the load of one object over time, up to a year.",
        "trimtab history load sandbox tenant acme --from -90d --compare quarter",
    ),
    "growth": CommandEntry(
        f"{_HISTORY}.growth",
        "Show what grows, and when the cluster is full.",
        "trimtab history growth sandbox --from -26w",
    ),
    "fleet": CommandEntry(
        f"{_HISTORY}.fleet",
        "Show deviation, moves and alerts of all clusters by day.",
        "trimtab history fleet --from -30d",
    ),
    "flaps": CommandEntry(
        f"{_HISTORY}.analysis",
        "Show flapping bundles and moves without effect.",
        "trimtab history flaps sandbox --side 5",
        is_served=True,
    ),
    "agreement": CommandEntry(
        f"{_HISTORY}.recorded",
        "Compare predicted and actual moves of the leader.",
        "trimtab history agreement sandbox --from -1h",
        is_served=True,
    ),
    "snapshot": CommandEntry(
        f"{_HISTORY}.recorded",
        "Write a recorded minute as a snapshot directory.",
        "trimtab history snapshot sandbox --at -10min --out snap",
        is_served=True,
    ),
    "export": CommandEntry(
        f"{_HISTORY}.transfer",
        "Write a time range to one file, for another machine.",
        "trimtab history export sandbox --from -1h --out hour.tar",
    ),
    "import": CommandEntry(
        f"{_HISTORY}.transfer",
        "Import an exported range, or snapshots.",
        "trimtab history import hour.tar --as copy",
    ),
    "repair": CommandEntry(
        f"{_HISTORY}.transfer",
        "Repair damaged files of the history; report losses.",
        "trimtab history repair sandbox",
    ),
    "compact": CommandEntry(
        f"{_HISTORY}.transfer",
        "Merge small files; apply the age and size limits.",
        "trimtab history compact sandbox",
    ),
}

_TIERS: Final[Mapping[str, CommandEntry]] = {
    "run": CommandEntry(
        f"{_CLI}.pipeline",
        "Roll up the minutes that are not in hours and days yet.",
        "trimtab pipeline run sandbox",
    ),
    "status": CommandEntry(
        f"{_CLI}.pipeline",
        "Show how far hours and days are.",
        "trimtab pipeline status",
    ),
    "backfill": CommandEntry(
        f"{_CLI}.pipeline",
        "Roll up a time range again, due or not.",
        "trimtab pipeline backfill sandbox --from -7d",
    ),
    "verify": CommandEntry(
        f"{_CLI}.pipeline",
        "Recompute a sample of hours and days and compare.",
        "trimtab pipeline verify sandbox --hours 5",
    ),
    "export": CommandEntry(
        f"{_CLI}.pipeline",
        "Write hours, days or profiles to a Parquet or CSV file.",
        "trimtab pipeline export sandbox --tier hours --kind broker --out hours.parquet",
    ),
}

_LEADER: Final[Mapping[str, CommandEntry]] = {
    "next": CommandEntry(
        f"{_PULSAR}.leader",
        "Show the next shedding round that the collector predicts.",
        "trimtab leader next sandbox",
    ),
    "record": CommandEntry(
        f"{_PULSAR}.leader",
        "Record the znodes that the leader uses.",
        "trimtab leader record sandbox --out leader.jsonl.gz --for 20min",
    ),
    "replay": CommandEntry(
        f"{_PULSAR}.leader",
        "Replay the shedding rounds of a recording.",
        "trimtab leader replay leader.jsonl.gz --strategy ThresholdShedder",
    ),
}

_SIZES: Final[Mapping[str, CommandEntry]] = {
    "bundles": CommandEntry(
        f"{_ADVISE}.bundles",
        "Compute how many bundles a namespace needs.",
        "trimtab advise bundles --brokers 12 --topics 5000 --rate 80000",
    ),
    "partitions": CommandEntry(
        f"{_ADVISE}.bundles",
        "Show the distribution of a topic's partitions over bundles.",
        "trimtab advise partitions acme/orders/paid --partitions 32 --bundles 16",
    ),
    "lookups": CommandEntry(
        f"{_ADVISE}.bundles",
        "Compute the lookups that unloading a namespace causes.",
        "trimtab advise lookups snap --namespace acme/orders",
    ),
    "queue": CommandEntry(
        f"{_ADVISE}.clients",
        "Compute when a slow broker blocks a producer's queue.",
        "trimtab advise queue --partitions 32 --max-pending 1000 --rate 5000",
    ),
    "compaction": CommandEntry(
        f"{_ADVISE}.storage",
        "Estimate the disk space that a bookie's compaction frees.",
        "trimtab advise compaction --live 0.4",
    ),
    "ledger": CommandEntry(
        f"{_ADVISE}.storage",
        "Compute when a ledger rolls over, and its size.",
        "trimtab advise ledger --rate 200 --throughput 4000000",
    ),
    "retention": CommandEntry(
        f"{_ADVISE}.storage",
        "Compute when a message is retained, expired and deleted.",
        "trimtab advise retention --throughput 4000000 --minutes 60",
    ),
    "disks": CommandEntry(
        f"{_ADVISE}.storage",
        "Estimate how evenly ledgers fill a bookie's directories.",
        "trimtab advise disks snap --directories 4",
    ),
}

_POLICIES: Final[Mapping[str, CommandEntry]] = {
    "list": CommandEntry(
        f"{_PULSAR}.policies",
        "List the policies.",
        "trimtab policy list sandbox isolation",
        is_served=True,
    ),
    "set": CommandEntry(
        f"{_PULSAR}.policies",
        "Validate and plan a policy; run it with `apply`.",
        "trimtab policy set sandbox anti_affinity acme/orders orders --plan p.json",
        is_served=True,
    ),
    "delete": CommandEntry(
        f"{_PULSAR}.policies",
        "Plan the removal of a policy; run it with `apply`.",
        "trimtab policy delete sandbox anti_affinity acme/orders --plan p.json",
        is_served=True,
    ),
}

_USERS: Final[Mapping[str, CommandEntry]] = {
    "list": CommandEntry(f"{_CLI}.users", "List the users with a password.", "trimtab users list"),
    "add": CommandEntry(
        f"{_CLI}.users",
        "Add a user, or set a new password.",
        "trimtab users add alice --group sre",
    ),
    "remove": CommandEntry(
        f"{_CLI}.users",
        "Remove a user with all sessions and API tokens.",
        "trimtab users remove alice",
    ),
}

_TOKENS: Final[Mapping[str, CommandEntry]] = {
    "list": CommandEntry(
        f"{_CLI}.tokens", "List the API tokens, without secrets.", "trimtab tokens list"
    ),
    "create": CommandEntry(
        f"{_CLI}.tokens",
        "Create an API token and print it once.",
        "trimtab tokens create alice --days 30",
    ),
    "revoke": CommandEntry(
        f"{_CLI}.tokens", "Revoke an API token.", "trimtab tokens revoke 0f3a9c55d1e2"
    ),
}

_ALERTS: Final[Mapping[str, CommandEntry]] = {
    "list": CommandEntry(
        f"{_CLI}.alerts", "List firing, pending and resolved alerts.", "trimtab alerts list"
    ),
    "past": CommandEntry(
        f"{_CLI}.alerts",
        "List past alerts of a cluster.",
        "trimtab alerts past sandbox --from -7d",
    ),
    "silence": CommandEntry(
        f"{_CLI}.alerts",
        "Silence alerts for a time; they stay in the list.",
        "trimtab alerts silence uneven --cluster sandbox --for 2h --reason test",
    ),
    "limits": CommandEntry(
        f"{_CLI}.alerts",
        "List the alert thresholds and their changes.",
        "trimtab alerts limits",
    ),
    "set": CommandEntry(
        f"{_CLI}.alerts",
        "Preview or change an alert threshold.",
        "trimtab alerts set uneven --threshold 30 --minutes 15 --reason test",
    ),
    "unsilence": CommandEntry(f"{_CLI}.alerts", "End a silence.", "trimtab alerts unsilence 1"),
    "test": CommandEntry(
        f"{_CLI}.alerts", "Send a test message to a target.", "trimtab alerts test on-call"
    ),
}

_PEGASUS_COMMANDS: Final[Mapping[str, Mapping[str, CommandEntry]]] = {
    "Observe": {
        "health": CommandEntry(
            f"{_PEGASUS}.state",
            "Show unhealthy partitions and the balance of the cluster.",
            "trimtab pegasus health sandbox-pegasus",
            is_served=True,
        ),
        "nodes": CommandEntry(
            f"{_PEGASUS}.state",
            "Show the replica servers: replicas, load, disks.",
            "trimtab pegasus nodes sandbox-pegasus",
            is_served=True,
        ),
        "tables": CommandEntry(
            f"{_PEGASUS}.state",
            "Show the tables: size, load, health.",
            "trimtab pegasus tables sandbox-pegasus",
            is_served=True,
        ),
        "level": CommandEntry(
            f"{_PEGASUS}.plans",
            "Show the function level; `set LEVEL` sets it.",
            "trimtab pegasus level sandbox-pegasus set lively --apply --reason balance",
            is_served=True,
        ),
    },
    "Analyze": {
        "balance": CommandEntry(
            f"{_PEGASUS}.balance",
            "Simulate the meta server's balancer, round by round.",
            "trimtab pegasus balance sandbox-pegasus --rounds 0",
        ),
    },
    "Plan and act (with --apply)": {
        "move": CommandEntry(
            f"{_PEGASUS}.plans",
            "Move a primary, or copy a replica to another node.",
            "trimtab pegasus move sandbox-pegasus 2.7 move_pri"
            " --from localhost:34801 --to localhost:34802",
            is_served=True,
        ),
        "propose": CommandEntry(
            f"{_PEGASUS}.plans",
            "Propose one safe change of a partition.",
            "trimtab pegasus propose sandbox-pegasus 2.7 ADD_SECONDARY --node localhost:34801",
            is_served=True,
        ),
        "migrate": CommandEntry(
            f"{_PEGASUS}.plans",
            "Move every primary off a node; no data moves.",
            "trimtab pegasus migrate sandbox-pegasus localhost:34801",
            is_served=True,
        ),
        "drain": CommandEntry(
            f"{_PEGASUS}.plans",
            "Drain nodes one by one.",
            "trimtab pegasus drain sandbox-pegasus localhost:34801 --plan drain.json",
            is_served=True,
        ),
        "offline": CommandEntry(
            f"{_PEGASUS}.plans",
            "Take nodes out of service.",
            "trimtab pegasus offline sandbox-pegasus localhost:34801 --rate 50",
            is_served=True,
        ),
        "rolling-update": CommandEntry(
            f"{_PEGASUS}.plans",
            "Restart nodes one by one.",
            "trimtab pegasus rolling-update sandbox-pegasus --plan update.json",
            is_served=True,
        ),
        "rebalance": CommandEntry(
            f"{_PEGASUS}.plans",
            "Run the meta server's balancer, then restore the level.",
            "trimtab pegasus rebalance sandbox-pegasus --apply --reason balance",
            is_served=True,
        ),
        "even": CommandEntry(
            f"{_PEGASUS}.plans",
            "Balance the cluster by one measure with few moves.",
            "trimtab pegasus even sandbox-pegasus --by disk --plan even.json",
            is_served=True,
        ),
        "set": CommandEntry(
            f"{_PEGASUS}.plans",
            "Validate and change a setting of running servers.",
            "trimtab pegasus set sandbox-pegasus meta.lb.only_move_primary true",
            is_served=True,
        ),
    },
}

COMMANDS: Final[Mapping[str, Mapping[str, CommandEntry | Group]]] = {
    "Observe": {
        "health": CommandEntry(
            f"{OPERATIONS}health",
            "Show the findings of a cluster or a snapshot.",
            "trimtab health sandbox",
        ),
        "alerts": Group("List and silence alerts; test their targets.", {"Commands": _ALERTS}),
        "lookup": CommandEntry(
            f"{OPERATIONS}lookup",
            "Show the bundle and the owner of a topic.",
            "trimtab lookup snap acme/orders/paid",
        ),
        "topics": CommandEntry(
            f"{_PULSAR}.topics",
            "Map topics of a file to bundles and brokers.",
            "trimtab topics topics.csv --snapshot snap --top 10",
        ),
        "owners": CommandEntry(
            f"{OPERATIONS}owners",
            "Show ownership: sessions, orphans, double claims.",
            "trimtab owners sandbox --orphans",
        ),
        "tenants": CommandEntry(
            f"{OPERATIONS}tenants",
            "Show the traffic of tenants next to their limits.",
            "trimtab tenants sandbox",
        ),
        "isolation": CommandEntry(
            f"{_PULSAR}.policies",
            "Show which brokers may serve which namespaces.",
            "trimtab isolation sandbox --namespace acme/orders",
            is_served=True,
        ),
        "capture": CommandEntry(
            f"{_CLI}.clusters",
            "Take one snapshot of a cluster.",
            "trimtab capture sandbox --out snap",
            instead="Use `trimtab history snapshot CLUSTER --at TIME --out DIR --server URL`.",
        ),
        "import": CommandEntry(
            f"{_PULSAR}.import_files",
            "Convert outputs of pulsar-admin and metrics to a snapshot.",
            "trimtab import b-*.json dynamic.txt b-0.prom --out snap --cluster production",
        ),
        "import-zk": CommandEntry(
            f"{_PULSAR}.import_zk",
            "Convert a ZooKeeper dump to a snapshot.",
            "trimtab import-zk dump.jsonl --out snap --cluster production",
        ),
        "history": Group(
            "Read, export, repair and analyze the recorded history.",
            {"Commands": _RECORDED},
        ),
        "pipeline": Group(
            "Roll the recorded minutes up to hours and days.",
            {"Commands": _TIERS},
        ),
    },
    "Analyze": {
        "diagnose": CommandEntry(
            f"{_CLI}.diagnose",
            "Find the causes of uneven load, verified by simulation.",
            "trimtab diagnose sandbox",
        ),
        "explain": CommandEntry(
            f"{_DECISIONS}.explanation",
            "Explain the shedding decision of the next round.",
            "trimtab explain sandbox",
            is_served=True,
        ),
        "doctor": CommandEntry(
            f"{_DECISIONS}.settings_doctor",
            "Check the settings: conflicts, differences, fixes.",
            "trimtab doctor sandbox",
            is_served=True,
        ),
        "shed": CommandEntry(
            f"{_DECISIONS}.shed",
            "Preview shedding rounds: bundles, destinations, reasons.",
            "trimtab shed snap --strategy ThresholdShedder --rounds 2",
        ),
        "place": CommandEntry(
            f"{OPERATIONS}place",
            "Show the placement candidates of a bundle.",
            f"trimtab place snap --bundle {_BUNDLE}",
        ),
        "simulate": CommandEntry(
            f"{OPERATIONS}simulate",
            "Simulate the balancer's rounds to convergence.",
            "trimtab simulate snap --shed ThresholdShedder --rounds 60",
        ),
        "drill": CommandEntry(
            f"{OPERATIONS}drill",
            "Simulate the failure of each broker, domain or node.",
            "trimtab drill snap --hot 0.8",
        ),
        "backtest": CommandEntry(
            f"{_CLI}.backtest",
            "Rank strategies and settings on the recorded load.",
            "trimtab backtest --grid grid.json --out result",
        ),
        "leader": Group(
            "Record, replay and predict a leader's shedding rounds.",
            {"Commands": _LEADER},
        ),
        "quota": CommandEntry(
            f"{_PULSAR}.quota",
            "Compute each broker's share of a resource group's limit.",
            "trimtab quota --limit 100 --usage 10,50,30",
        ),
        "advise": Group("Compute sizes and limits for tuning.", {"Commands": _SIZES}),
    },
    "Plan": {
        "optimize": CommandEntry(
            f"{_DECISIONS}.optimization",
            "Find the fewest moves that balance the cluster.",
            "trimtab optimize snap --within 0.05 --plan plan.json",
            is_served=True,
        ),
        "unload": CommandEntry(
            f"{_PULSAR}.plans",
            "Plan an unload of bundles; nothing is sent.",
            f"trimtab unload snap --bundle {_BUNDLE}",
            is_served=True,
        ),
        "split": CommandEntry(
            f"{_DECISIONS}.split",
            "Preview a split of a bundle: positions, load, effect.",
            f"trimtab split snap --bundle {_BUNDLE}",
            is_served=True,
        ),
        "set": CommandEntry(
            f"{_PULSAR}.plans",
            "Plan a change of dynamic settings.",
            "trimtab set sandbox loadBalancerSheddingEnabled=true --plan p.json",
            is_served=True,
        ),
        "policy": Group(
            "List, set and delete policies.",
            {"Commands": _POLICIES},
            "Isolation, anti-affinity, failure domains, resource groups, rates and quotas.",
        ),
        "preview": CommandEntry(
            f"{_CLI}.preview",
            "Preview a plan: destinations, load, clients, commands.",
            "trimtab preview plan.json --snapshot snap",
            is_served=True,
        ),
    },
    "Act": {
        "apply": CommandEntry(
            f"{_CLI}.apply",
            "Apply a plan: check, send and verify, step by step.",
            'trimtab apply plan.json --reason "hot broker"',
            is_served=True,
        ),
        "undo": CommandEntry(
            f"{_CLI}.apply",
            "Undo a run: move bundles back and restore settings.",
            'trimtab undo 20261124-090000-3f2a9c --reason "not needed"',
            is_served=True,
        ),
        "review": CommandEntry(
            f"{_CLI}.review",
            "Show a run that waits for approval; approve or reject it.",
            "trimtab review 20261124-090000-3f2a9c --approve",
            is_served=True,
        ),
        "runs": CommandEntry(
            f"{_CLI}.runs",
            "List, show and control runs; verify the journal.",
            "trimtab runs --cluster sandbox --last 5",
            is_served=True,
        ),
        "audit": CommandEntry(
            f"{_CLI}.audit",
            "List and export the journal: who did what, and when.",
            "trimtab audit --who alice --from -7d --export week.csv",
            is_served=True,
        ),
        "archive": CommandEntry(
            f"{_CLI}.archive",
            "Move old entries of the journal to a file.",
            "trimtab archive 2026.jsonl --before 2026-07-01 --reason OPS-7",
        ),
        "pegasus": Group("Show, balance and maintain Apache Pegasus clusters.", _PEGASUS_COMMANDS),
    },
    "Services": {
        "demo": CommandEntry(
            f"{_CLI}.demo",
            "Run the dashboard on embedded clusters.",
            "trimtab demo --port 8501",
            instead="Omit --server: it is a process of its own.",
        ),
        "dashboard": CommandEntry(
            f"{_CLI}.clusters",
            "Serve the pages, collect clusters and apply plans.",
            "trimtab dashboard --config trimtab.toml --port 8501",
            instead="Omit --server: it is a process of its own.",
        ),
        "check": CommandEntry(
            f"{_CLI}.clusters",
            "Check the configuration and every endpoint.",
            "trimtab check --config trimtab.toml",
        ),
        "collect": CommandEntry(
            f"{_CLI}.clusters",
            "Collect and record snapshots of clusters, until Ctrl-C.",
            "trimtab collect sandbox --every 60s",
            instead="Omit --server: it is a process of its own.",
        ),
        "worker": CommandEntry(
            f"{_CLI}.apply",
            "Execute requested runs on clusters, until Ctrl-C.",
            "trimtab worker sandbox",
            instead="Omit --server: it is a process of its own.",
        ),
        "jobs": CommandEntry(
            f"{_CLI}.jobs",
            "List, show and stop jobs; run the job server.",
            "trimtab jobs list",
            is_served=True,
        ),
        "metrics": CommandEntry(
            f"{_CLI}.metrics",
            "Print Prometheus metrics of Trimtab and its clusters.",
            "trimtab metrics",
        ),
        "backup": CommandEntry(
            f"{_CLI}.backup",
            "Back up journal, users and key while they are in use.",
            "trimtab backup /backup/2026-11-24",
        ),
        "restore": CommandEntry(
            f"{_CLI}.backup",
            "Restore a backup; overwrite no file.",
            "trimtab restore /backup/2026-11-24",
        ),
        "sandbox": CommandEntry(
            f"{_CLI}.demo",
            "Run an embedded test cluster, until Ctrl-C.",
            "trimtab sandbox --brokers 3 --bundles 30 --write-config t.toml",
            instead="Omit --server: it is a process of its own.",
        ),
        "sandbox-node": CommandEntry(
            f"{_PEGASUS}.sandbox",
            "Inject or end a fault in a Pegasus sandbox node.",
            "trimtab sandbox-node localhost:34801 freeze",
        ),
        "users": Group("Manage users with a password.", {"Commands": _USERS}),
        "tokens": Group("Manage API tokens of people and scrapers.", {"Commands": _TOKENS}),
        "whoami": CommandEntry(
            f"{_CLI}.users",
            "Show your identity and your role on each cluster.",
            "trimtab whoami",
            is_served=True,
        ),
        "completion": CommandEntry(
            f"{_CLI}.completion",
            "Print the completion script of a shell.",
            'eval "$(trimtab completion bash)"',
        ),
    },
}
"""The commands of ``trimtab`` by heading and name."""

OTHER_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "balance": ("simulate", "pegasus balance"),
    "brokers": ("explain", "health"),
    "bundles": ("owners", "lookup", "advise bundles"),
    "calculators": ("advise",),
    "clusters": ("health", "check"),
    "config": ("check", "doctor"),
    "fleet": ("health",),
    "maintenance": ("pegasus drain", "pegasus offline", "pegasus rolling-update"),
    "move": ("unload", "pegasus move"),
    "namespaces": ("tenants", "isolation"),
    "partitions": ("pegasus health", "advise partitions"),
    "plan": ("optimize", "preview", "apply"),
    "rebalance": ("optimize", "shed", "pegasus rebalance"),
    "replicas": ("pegasus nodes", "pegasus tables"),
    "serve": ("dashboard",),
    "settings": ("doctor", "set"),
    "status": ("health", "pegasus health"),
    "strategies": ("shed", "backtest"),
}
"""Words of the pages and of Pulsar's and Pegasus' own tools, with the commands for them."""
