"""A Pegasus cluster in memory that carries plans out, with a guardian of its own mind."""

from __future__ import annotations

from core.pegasus.answers import NodeEntry
from core.pegasus.balance.model import ConfigType, ProposalAction
from core.pegasus.levels import FunctionLevel
from core.pegasus.partition import PartitionConfig
from core.pegasus.proposal import ProposalContext
from core.pegasus.reconfigure import projected_configs
from core.pegasus.snapshot import PegasusFacts
from core.pegasus.steps.batch import ProposeMany
from core.pegasus.steps.close import CloseReplicas
from core.pegasus.steps.move import MoveReplica
from core.pegasus.steps.setting import SetServerSetting
from core.pegasus.steps.wait import AwaitState
from core.plan.model import Plan
from core.snapshot.pegasus import PegasusSnapshot

BLACK_LIST = "meta.lb.assign_secondary_black_list"
ADD_LIMIT = "meta.lb.add_secondary_max_count_for_one_node"


class Stage:
    """A cluster that does what steps ask, and whose guardian chooses in an order of its own."""

    def __init__(self, snapshot: PegasusSnapshot, *, prefer_last: bool = True) -> None:
        facts = PegasusFacts(snapshot)
        self.nodes = {node.name: node for node in facts.nodes}
        every = [config for table in facts.partitions.values() for config in table]
        self.configs: dict[str, PartitionConfig] = {config.gpid: config for config in every}
        self.black: set[str] = set()
        self.may_add = True
        self.dropped: dict[str, str] = {}
        self.fewest = 9
        self.prefer_last = prefer_last

    def play(self, plan: Plan) -> None:
        for step in plan.steps:
            match step:
                case SetServerSetting():
                    self._set(step)
                case ProposeMany():
                    self._propose(step)
                case MoveReplica():
                    config = self.configs[step.subject]
                    actions = step.proposal(self._proposal_context(), config).actions
                    self.configs[config.gpid] = projected_configs(config, actions)[-1]
                case AwaitState():
                    self._await(step)
                case CloseReplicas():
                    assert all(step.node not in self.configs[g].members for g in step.partitions)

    def _set(self, step: SetServerSetting) -> None:
        if step.key == BLACK_LIST:
            self.black = set(step.value.split(","))
        if step.key == ADD_LIMIT:
            self.may_add = step.value != "0"

    def _propose(self, step: ProposeMany) -> None:
        context = self._proposal_context()
        for item in step.items:
            config = self.configs[item.partition.gpid]
            actions = step.proposal(context, config).actions
            self.configs[config.gpid] = projected_configs(config, actions)[-1]
            if step.verb != "move_pri":
                self.dropped[config.gpid] = step.node
            self.fewest = min(self.fewest, self.configs[config.gpid].replica_count)
            assert self.configs[config.gpid].primary is not None

    def _proposal_context(self) -> ProposalContext:
        alive = {name: NodeEntry(name, None, is_alive=True) for name in self.nodes}
        return ProposalContext(nodes=alive, level=FunctionLevel.STEADY)

    def _await(self, step: AwaitState) -> None:
        led = {config.primary for config in self.configs.values()}
        held = {name for config in self.configs.values() for name in config.members}
        match step.state:
            case "no_primaries":
                assert step.node not in led
            case "no_replicas" | "closed":
                assert step.node not in held
            case "healthy":
                self._repair()

    def _repair(self) -> None:
        """Put what is missing on its last node, or where that is kept out on the first or last."""
        assert self.may_add
        for gpid, config in list(self.configs.items()):
            if config.replica_count >= config.max_replica_count:
                continue
            able = [name for name in self.nodes if name not in {*config.members, *self.black}]
            back = self.dropped[gpid]
            node = back if back in able else able[-1 if self.prefer_last else 0]
            learn = ProposalAction(ConfigType.ADD_SECONDARY, config.primary or "", node)
            self.configs[gpid] = projected_configs(config, [learn])[-1]
