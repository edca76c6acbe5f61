"""Parts of the page of settings that the doctor fills: diagnoses, brokers against each other."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import streamlit as st

from core.health.doctor import AREAS, Diagnosis, Examination
from core.health.doctor.groups import Comparison
from dashboard.components import settings, tables, words
from dashboard.presenters import doctor as presenter

if TYPE_CHECKING:
    from dashboard.components.frame import PageContext

_ICONS: Final = {
    "error": ":red[:material/error:]",
    "warning": ":orange[:material/warning:]",
    "unknown": ":gray[:material/help:]",
    "info": ":gray[:material/info:]",
}
_MOST_OF_A_CODE: Final = 3
_MOST_OPEN: Final = 5


def diagnoses(page: PageContext, found: Examination) -> None:
    """Draw what was found: what needs a look openly, the rest folded away."""
    words.section("Doctor", "What contradicts, what cannot be right, and how each is mended.")
    urgent = [one for one in found.diagnoses if one.severity != "info"]
    known = [one for one in found.diagnoses if one.severity == "info"]
    if not urgent:
        st.caption(":material/check_circle: Nothing is known to do harm.")
    _listed(urgent[:_MOST_OPEN], "look")
    if rest := urgent[_MOST_OPEN:]:
        with st.expander(f"{len(rest)} more that need a look", icon=":material/warning:"):
            _listed(rest, "rest")
    if known:
        with st.expander(f"Worth knowing ({len(known)})", icon=":material/info:"):
            _listed(known, "known")
    if found.diagnoses:
        tables.downloads(
            presenter.diagnoses_table(found.diagnoses),
            cluster=page.name,
            what="doctor",
            moment=page.shelved.taken_at,
        )


def _listed(found: list[Diagnosis], name: str) -> None:
    """Draw the first ones of each code; the others are counted."""
    shown: Counter[str] = Counter()
    for number, one in enumerate(found):
        shown[one.code] += 1
        if shown[one.code] <= _MOST_OF_A_CODE:
            _card(one, f"{name}-{number}")
    more = sum(count - _MOST_OF_A_CODE for count in shown.values() if count > _MOST_OF_A_CODE)
    if more:
        st.caption(f"{more} more of the same kinds: the file below has all of them.")


def _card(one: Diagnosis, key: str) -> None:
    with st.container(border=True):
        left, right = st.columns([0.58, 0.42], gap="medium")
        with left:
            st.markdown(f"{_ICONS[one.severity]} {words.coded(one.evidence)}")
            st.markdown(f"**So:** {words.coded(one.consequence)}")
            st.caption(f"{AREAS[one.area]} · rule `{one.code}`")
        with right:
            _fix(one, key)


def _fix(one: Diagnosis, key: str) -> None:
    fix = one.fix
    if fix.sentence:
        st.markdown(f"**Fix:** {words.coded(fix.sentence)}")
    if fix.wanted:
        options = presenter.fix_options(one)
        st.code("\n".join(options), language="properties", wrap_lines=True)
        st.button(
            "Put it into the changes",
            icon=":material/add:",
            key=f"fix-{key}",
            help="Shows what it would do, and makes the plan that sets it.",
            on_click=settings.wish,
            args=(options,),
        )
    if fix.lines:
        st.caption("Not dynamic: a line of broker.conf, and a restart of the brokers one by one.")
        st.code("\n".join(fix.lines), language="properties", wrap_lines=True)
    elif fix.restart:
        st.caption("Read when a broker starts: restart the brokers one by one.")


def comparison(compared: Comparison) -> None:
    """Draw the brokers against each other."""
    words.section(
        "Brokers against each other",
        "Settings, release and limits that are not the same everywhere.",
    )
    if not compared.rows:
        if compared.brokers > 1:
            told = f"All {compared.brokers} brokers are alike in what was read."
            st.caption(f":material/check_circle: {told}")
        elif compared.brokers:
            st.caption("There is one broker: nothing to compare.")
        return
    table = presenter.comparison_table(compared)
    tables.table(
        table,
        {
            "what": tables.words("What differs", pinned=True),
            "common": st.column_config.TextColumn("Most brokers", width=150),
            **{
                name: st.column_config.TextColumn(name, width=170)
                for name in table.columns
                if name not in ("what", "common")
            },
        },
        key="brokers_compared",
        alt="What differs between groups of equal brokers",
        height=min(420, tables.height_of(len(table))),
    )
    st.caption("A column is a group of brokers that are alike; · is what most brokers have.")
    more = len(compared.groups) - presenter.MOST_GROUPS
    if more > 0:
        st.caption(f"{more} more groups of brokers; `trimtab doctor` with --json has all of them.")
    if members := presenter.members(compared):
        with st.expander("Who is in which group", icon=":material/dns:"):
            words.notes(members)
