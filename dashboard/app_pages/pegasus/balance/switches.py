"""Controls of the Balance page: switches of the policies, the planner's request."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import streamlit as st

from core.pegasus.balance.model import BalanceOptions, Policy
from core.pegasus.balance.node_order import ties_sentence
from core.pegasus.even.request import EvenRequest
from core.plan.options import CopyRate
from core.units import format_band
from dashboard import state
from dashboard.app_pages.pegasus.balance import model
from dashboard.app_pages.pegasus.balance.model import ties_frame
from dashboard.components import tables, words
from dashboard.legible import option
from dashboard.presenters.pegasus import copies
from dashboard.queries.pegasus import balance as queries
from dashboard.queries.pegasus.copies import measured_rate

if TYPE_CHECKING:
    from dashboard.components.pegasus.page import PegasusPage

APP: Final = "App policy"
CLUSTER: Final = "Cluster policy"
EVEN: Final = "Optimizer"
HAND: Final = "Manual move"
CANDIDATES: Final = (APP, CLUSTER, EVEN, HAND)
POLICIES: Final[dict[str, Policy]] = {APP: "app", CLUSTER: "cluster"}
_ORDERS: Final[dict[str, queries.Order]] = {
    "learned": "learned",
    "by name": "names",
    "by name, descending": "reversed",
    "drawn": "drawn",
}
_SWITCHES: Final = {
    "only_move_primary": "Primaries only swap roles with a secondary; no copies of primaries.",
    "only_primary_balancer": "No copies of secondaries.",
    "balancer_in_turn": "One table per round.",
}


@dataclass(frozen=True, kw_only=True)
class BalanceSettings:
    """Settings of the policies on the page.

    Attributes:
        options: Switches as set on the page, of the selected policy or of the active one.
        here: The cluster's own.
        assumed: Names of the cluster's switches that it did not report.
        order: Of the nodes.
        seed: Of a drawn order.
    """

    options: BalanceOptions
    here: BalanceOptions
    assumed: tuple[str, ...]
    order: queries.Order = "learned"
    seed: int = 1

    def candidate(self, page: PegasusPage, policy: Policy) -> queries.PolicyCandidate:
        """Return one policy with these switches."""
        return queries.PolicyCandidate(
            stored=page.stored,
            options=replace(self.options, policy=policy),
            order=self.order,
            seed=self.seed,
        )


def cluster_settings(page: PegasusPage) -> BalanceSettings:
    """Return the cluster's own switches."""
    here, assumed = page.facts.options()
    return BalanceSettings(options=here, here=here, assumed=tuple(assumed))


def draw_settings(page: PegasusPage, own: BalanceSettings, policy: Policy) -> BalanceSettings:
    """Draw a policy's switches; return their settings."""
    here, names = own.here, {table.name: key for key, table in page.facts.tables.items()}
    is_app = policy == "app"
    with st.container(horizontal=True):  # flows: as many next to each other as there is room for
        switches = {
            name: st.toggle(
                f"`{name}`",
                value=getattr(here, name),
                key=name,
                bind="query-params",
                disabled=not is_app,
                width=230,
                help=f"{help_text} Not read by the cluster policy.",
            )
            for name, help_text in _SWITCHES.items()
        }
        skew = st.toggle(
            "`intended_skew`",
            value=False,
            key="intended_skew",
            bind="query-params",
            disabled=is_app,
            width=230,
            help="Not a switch of Pegasus: the intended behavior of the cluster policy.",
        )
    with st.container(horizontal=True, vertical_alignment="bottom"):
        limit = st.number_input(
            "`balance_op_count_per_round`",
            min_value=0,
            value=here.balance_op_count_per_round,
            key="balance_op_count_per_round",
            bind="query-params",
            disabled=is_app,
            width=250,
            help="Max copies per round. Not read by the app policy.",
        )
        ignored = st.multiselect(
            "`ignored_app_list`",
            sorted(names),
            default=sorted(name for name, key in names.items() if key in here.ignored_app_ids),
            format_func=option,
            key="ignored_app_list",
            bind="query-params",
            placeholder="no ignored tables",
            width=250,
            help="Tables ignored by the app policy. The cluster policy moves them.",
        )
        order, seed = _order()
    options = replace(
        here,
        policy=policy,
        only_move_primary=bool(switches["only_move_primary"]),
        only_primary_balancer=bool(switches["only_primary_balancer"]),
        balancer_in_turn=bool(switches["balancer_in_turn"]),
        balance_op_count_per_round=int(limit or 0),
        ignored_app_ids=frozenset(names[name] for name in ignored),
        intended_skew=bool(skew),
    )
    _draw_comparison(own, options)
    return BalanceSettings(options=options, here=here, assumed=own.assumed, order=order, seed=seed)


def _order() -> tuple[queries.Order, int]:
    chosen = st.selectbox(
        "Order of the nodes",
        list(_ORDERS),
        key="order",
        bind="query-params",
        width=250,
        help=model.order_words(),
    )
    seed = 1
    if chosen == "drawn":
        seed = int(
            st.number_input(
                "Draw", min_value=1, value=1, key="draw", bind="query-params", width=110
            )
        )
    return _ORDERS[chosen or "learned"], seed


def _draw_comparison(own: BalanceSettings, options: BalanceOptions) -> None:
    here = replace(own.here, policy=options.policy)
    if options != here:
        st.caption("◇ What if: some switches differ from the cluster. Simulation only.")
    elif own.assumed:
        st.caption(
            words.plain(f"Not reported by the cluster, default used: {', '.join(own.assumed)}.")
        )
    else:
        st.caption("Switches of the cluster. Changes apply to this page only.")


def draw_node_order(page: PegasusPage, basis: queries.BalanceBasis, own: BalanceSettings) -> None:
    """Draw the source of the node order and the changes that depend on it."""
    plans = queries.likely((page.stored, own.here))
    st.caption(words.plain(f"{basis.orders.sentence} {ties_sentence(plans)}"))
    tied = ties_frame(plans)
    if tied.empty:
        return
    tables.table(
        tied,
        {
            "partition": tables.words("Partition"),
            "change": tables.words("Change"),
            "source": tables.words("From"),
            "target": tables.words("To"),
            "share_pct": tables.percent(
                "Share", "Share of the possible node orders with this change."
            ),
        },
        key="node_order_ties",
        alt="Changes of the next round that depend on the node order",
        height=min(300, tables.height_of(len(tied))),
    )


def even_run(page: PegasusPage, measure: queries.Measure) -> queries.EvenRun:
    """Draw the request to our own planner, and return it."""
    most_here, target = page.cluster.apply.max_steps, page.facts.target_ratio
    with st.container(horizontal=True, vertical_alignment="bottom"):
        within = st.slider(
            "Target band",
            min_value=1,
            max_value=50,
            value=max(1, min(50, round(target * 100))),
            format="±%d%%",
            key=state.WITHIN,
            bind="query-params",
            width=250,
            help="Max deviation from the mean for this page; target of the cluster: "
            f"{format_band(target)} (target_percent).",
        )
        limit = st.number_input(
            "Max changes (0: no limit)",
            min_value=0,
            value=most_here,
            key=state.MOST,
            bind="query-params",
            width=250,
            help=f"Max steps of a run on this cluster: {most_here}.",
        )
        may_copy = st.toggle(
            "Allow copies",
            value=True,
            key="may_copy",
            bind="query-params",
            width=250,
            help="If off, only role changes, which copy no data.",
        )
        all_moves = st.toggle(
            "All moves",
            key=state.ALL_MOVES,
            bind="query-params",
            width=250,
            help="Includes moves that do not reduce the max deviation.",
        )
    st.caption(
        f"Balances {measure} over the whole cluster: role changes first, then the copies with "
        "the largest effect per MB."
    )
    request = EvenRequest(
        measure=queries.MEASURE_OF[measure],
        within_percent=int(within),
        max_moves=int(limit) if limit else None,
        copy=bool(may_copy),
        all_moves=bool(all_moves),
    )
    return queries.EvenRun(stored=page.stored, request=request)


def measure_choice() -> queries.Measure:
    """Draw the choice of the compared measure, and return it."""
    return st.segmented_control(
        "Measure",
        list(queries.MEASURES),
        default="primaries",
        required=True,
        key=state.MEASURE,
        bind="query-params",
        label_visibility="collapsed",
        help="Measure of the max deviation.",
    )


def expected_rate(page: PegasusPage, basis: queries.BalanceBasis) -> CopyRate:
    """Return the copy rate of recent copies, else of the limit."""
    return copies.expected_rate(measured_rate(page.config, page.name), basis)


def copy_rate(expected: CopyRate) -> CopyRate:
    """Draw the copy rate that times are estimated with, and return it.

    Args:
        expected: Its default.
    """
    rate = st.number_input(
        "Copy rate (MB/s)",
        min_value=0.1,
        value=round(expected.mb_per_s, 1),
        format="%g",
        key="rate",
        bind="query-params",
        width=190,
        help=f"Rate of one copy. Default: {expected.basis}.",
    )
    is_own = rate == round(expected.mb_per_s, 1)
    return expected if is_own else CopyRate(float(rate), "set on this page")
