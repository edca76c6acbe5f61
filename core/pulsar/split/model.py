"""The request about the split of a bundle, and the answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from core.ids import range_text

VerdictCode = Literal["helps", "assumed", "no_change", "cannot_help", "refused", "unknown"]
ConditionKind = Literal["switch", "guard", "trigger", "memory"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitSubject:
    """One bundle as seen by both managers; ``None`` is unknown.

    Attributes:
        topic_count: Topics with stats, as the report names them.
        sessions: Producers and consumers.
        msg_rate: msg/s in + out, last measured.
        throughput: bytes/s in + out, last measured.
        long_msg_rate: msg/s, long-term average, what the modular leader compares.
        long_throughput: bytes/s, long-term average.
        is_from_quota: Whether no average is stored, and these begin with the bundle's own quota.
        bundles_in_namespace: How many there are now.
        brokers: Brokers in the cluster.
    """

    bundle: str
    namespace: str
    lower: int
    upper: int
    owner: str | None
    reporter: str | None
    is_broker_bound: bool
    topic_count: int | None
    sessions: int | None
    msg_rate: float | None
    throughput: float | None
    long_msg_rate: float | None
    long_throughput: float | None
    bundles_in_namespace: int
    brokers: int
    is_from_quota: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitCondition:
    """One condition of the automatic split.

    Attributes:
        name: In a few words.
        kind: All ``switch`` and ``guard`` conditions must hold, and one ``trigger``; ``memory`` is
            what only the broker knows.
        setting: Upstream key of the threshold; blank for a fixed one.
        measured: Value found, in ``unit``; ``None`` if unknown.
        threshold: What it is compared with, same unit.
        is_met: ``None`` if unknown.
        distance: How much ``measured`` has to change until the verdict turns, same unit: above zero
            while the condition is not met; ``None`` if unknown.
        sentence: All of that in words.
    """

    name: str
    kind: ConditionKind
    setting: str
    measured: float | None
    threshold: float | None
    unit: str
    is_met: bool | None
    distance: float | None
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitPart:
    """One part of the bundle after the split; ``None`` is unknown.

    Attributes:
        topic_count: Topics that fall into it.
        msg_rate: msg/s, in + out.
        throughput: bytes/s, in + out.
        sessions: Producers and consumers.
        share: Of the bundle's throughput (of its rate where it has none), ratio.
        is_assumed: Whether the load was distributed by the width of the range: topics are unread.
    """

    lower: int
    upper: int
    topic_count: int | None
    msg_rate: float | None
    throughput: float | None
    sessions: int | None
    share: float | None
    is_assumed: bool

    @property
    def range(self) -> str:
        """``0xLLLLLLLL_0xUUUUUUUU``."""
        return range_text(self.lower, self.upper)


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitCost:
    """Permanent cost of a split: bundles cannot be merged.

    Attributes:
        bundles_before: In the namespace.
        bundles_after: In the namespace; ``None`` if unknown, as the positions are.
        maximum_bundles: Automatic splits stop there; a split by hand may go beyond.
        znodes_added: ZooKeeper nodes more than before, once the parts have reported; ``None``:
            unknown.
        sentence: All of that in words.
    """

    bundles_before: int
    bundles_after: int | None
    maximum_bundles: int
    znodes_added: int | None
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitVerdict:
    """Whether the split is worth a request.

    Attributes:
        code: ``helps``; ``assumed``: it is cut, and what the parts carry is assumed by their width,
            as the topics are unread; ``no_change``: the request succeeds and nothing is cut;
            ``cannot_help``: the load stays together; ``refused``: the broker answers with an
            error; ``unknown``.
        sentence: With numbers.
        hint: What to do instead; may be blank.
        better: Positions of the cut that the hint names, for ``specified_positions_divide``.
    """

    code: VerdictCode
    sentence: str
    hint: str = ""
    better: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitWhatIf:
    """The whole answer about one bundle and one algorithm.

    Attributes:
        subject: The bundle.
        algorithm: Its name.
        positions: Inner boundaries, ascending.
        parts: After the split; one when it stays whole.
        verdict: Whether to do it.
        conditions: Of the automatic split, by the manager that the cluster runs.
        is_due: Whether the brokers would split it by themselves; ``None`` if unknown.
        when: The same in words.
        cost: What it costs.
        notes: What was assumed, what is known to go wrong.
    """

    subject: SplitSubject
    algorithm: str
    positions: tuple[int, ...]
    parts: tuple[SplitPart, ...]
    verdict: SplitVerdict
    conditions: tuple[SplitCondition, ...]
    is_due: bool | None
    when: str
    cost: SplitCost
    notes: tuple[str, ...]
