"""Contract of a system with the back-test page: candidates of its grids, and their rendering."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd

    from core.history.backtest.system import AnyBacktest


@dataclass(frozen=True, slots=True, kw_only=True)
class GridPreset:
    """A grid that makes sense.

    Attributes:
        title: For people.
        help: What it answers.
        shedding: Strategies or policies.
        placement: Strategies, where the system has any.
        keys: Settings to try, each at the suggested values.
    """

    title: str
    help: str
    shedding: tuple[str, ...]
    placement: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()


class GridSystem(Protocol):
    """One system, as a grid in the form uses it."""

    @property
    def system(self) -> AnyBacktest:
        """The back-test of its clusters."""

    @property
    def strategy(self) -> str:
        """The noun for one of its strategies."""

    @property
    def strategies_field(self) -> str:
        """Field of a grid with the strategies."""

    @property
    def values_field(self) -> str:
        """Field of a grid with the values to try."""

    @property
    def keys(self) -> tuple[str, ...]:
        """Settings that may be tried, in the order in which they are offered."""

    @property
    def placement(self) -> tuple[str, ...]:
        """Placement if none is chosen; empty: the system has no such strategies."""

    def describe(self, key: str) -> str:
        """Return the description of a setting."""

    def typed(self, key: str, text: str) -> object:
        """Return a value as a grid takes it.

        Args:
            key: Of the setting.
            text: JSON, or a text as people write it.
        Raises:
            InputError: The setting does not take it.
        """


class BacktestPages(Protocol):
    """One system, as the back-test page uses it; a page is ``None`` without a snapshot."""

    @property
    def grid(self) -> GridSystem:
        """The grids of the system."""

    @property
    def values_label(self) -> str:
        """Label of the list of settings to try."""

    def subjects(self, page: Any) -> int:
        """Return the number of subjects of the cluster; an estimate without a snapshot."""

    def presets(self, page: Any) -> Sequence[GridPreset]:
        """Return the grids that make sense."""

    def suggestions(self, page: Any, key: str) -> tuple[str, ...]:
        """Return values of a setting worth trying, as texts."""

    def present(self, page: Any, key: str) -> str:
        """Return the value of a setting on the cluster, as Markdown; empty: it is not shown."""

    def strategies(self, page: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Draw the choice of strategies; return those for shedding and for placement."""

    def draw_plan(self, page: Any, changes: pd.DataFrame, wanted: Mapping[str, Any]) -> None:
        """Draw the plan that makes the changes.

        Args:
            page: With a snapshot.
            changes: Rows of what is recommended.
            wanted: Those that a plan can change, by key.
        """
