"""The calculators of ledgers, disks, compaction and retention."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import streamlit as st

from core.planning.advisors.contradictions import contradictions
from core.planning.advisors.disks import DiskPicture, disk_picture, disks_words
from core.planning.advisors.ledger import Rollover, RolloverRule
from core.planning.advisors.retention import (
    CompactionRule,
    Phase,
    held_words,
    life_of_message,
)
from dashboard.app_pages.pulsar.advisors import model
from dashboard.app_pages.pulsar.advisors.charts import (
    compaction_line,
    disk_bars,
    filling_lines,
    life_bars,
)
from dashboard.app_pages.pulsar.advisors.inputs import Subject, topic_choice
from dashboard.app_pages.pulsar.advisors.result import Calculator, Given, Result
from dashboard.components import figures, tables, words
from dashboard.presenters.pulsar.advisors_facts import live_ledger, live_settings, live_storage
from dashboard.presenters.pulsar.advisors_inputs import DISKS, LEDGER, RETENTION

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dashboard.presenters.pulsar.advisors_facts import PartitionedTopic
    from dashboard.presenters.pulsar.advisors_inputs import ClusterValue


# -- ledgers ---------------------------------------------------------------------------------------


def _ledgers(subject: Subject, given: Given, _: PartitionedTopic | None) -> Result:
    rule = model.rule_of(given)
    rollover = model.rollover_of(rule, given)
    compaction, live_ratio = model.compaction_of(given), given["live_pct"] / 100
    text = model.compaction_words(compaction, live_ratio)
    directories = int(given["directories"])
    disks = disk_picture(subject.page.reading.movable, rule, directories)
    return Result(
        answer=model.rollover_answer(rollover),
        figures=model.ledger_figures(rule, rollover, compaction),
        title="Ledger growth",
        chart=None if rollover is None else filling_lines(model.filling(rule, rollover, given)),
        alt=model.rollover_answer(rollover),
        basis="Grey: min age. Rollover at the first bound after it.",
        tabs={
            **({} if rollover is None else {"Why": partial(_bounds, rule, rollover, given)}),
            "Disks": partial(_disks, disks, directories),
            "Compaction": partial(_compaction, compaction, live_ratio, text),
        },
    )


def _bounds(rule: RolloverRule, rollover: Rollover, given: Given) -> None:
    tables.table(
        model.bounds_table(rule, rollover, given),
        {
            "bound": tables.words("Bound"),
            "mark": tables.words(""),
            "minutes": st.column_config.NumberColumn("Reached after (min)", format="%,.1f"),
            "full": tables.percent("Value at rollover"),
            "formula": tables.words("Calculation"),
        },
        key="advisor_bounds",
        alt="Bounds of a ledger",
        missing="never",
    )
    st.caption(
        "Rollover if (entries ≥ max entries, size ≥ max size or age ≥ max age) and age > min "
        "age; checked after each entry, and by a timer for the age."
    )


def _disks(picture: DiskPicture | None, directories: int) -> None:
    if picture is None:
        st.info("No topics in this snapshot.", icon=":material/info:")
        return
    st.markdown(words.plain(disks_words(picture, directories)))
    figures.chart(disk_bars(picture), key="advisor_disks", alt=disks_words(picture, directories))
    st.caption(
        "Live: topics and traffic of every bundle of the cluster. Assumption: equal topics "
        "per bundle, one ledger each with a random number, all on one bookie."
    )


def _compaction(rule: CompactionRule, live_ratio: float, text: str) -> None:
    st.markdown(words.plain(text))
    figures.chart(
        compaction_line(model.compaction_curve(rule, live_ratio)),
        key="advisor_compaction",
        alt=text,
    )


# -- retention -------------------------------------------------------------------------------------


def _retention(_: Subject, given: Given, _topic: PartitionedTopic | None) -> Result:
    bytes_per_s = given["written"] * 1e6
    rule = model.retention_of(given)
    after = model.consumed_after(given)
    phases = life_of_message(rule, consumed_after_minutes=after, bytes_per_s=bytes_per_s)
    held = held_words(rule, phases, bytes_per_s)
    answer = model.retention_answer(phases, held)
    return Result(
        answer=answer,
        figures=model.retention_figures(phases, rule, bytes_per_s),
        title="Message lifetime",
        chart=life_bars(phases),
        alt=answer,
        basis="From publishing; max duration of each phase.",
        warnings=contradictions(
            rule,
            consumed_after_minutes=after,
            bytes_per_s=bytes_per_s,
            quota_megabytes=float(given["backlogQuotaDefaultLimitBytes"]),
        ),
        tabs={"Why": partial(_phases, phases)},
    )


def _phases(phases: Sequence[Phase]) -> None:
    st.caption("Select a row for details.")
    picked = tables.table(
        model.phases_table(phases),
        {
            "phase": tables.words("Phase"),
            "from": tables.words("From"),
            "until": tables.words("Until (max)"),
        },
        key="advisor_phases",
        alt="Phases of a message",
        selection="single-row",
    )
    for row in picked:
        st.caption(words.coded(phases[row].why))


def _live_retention(subject: Subject, topic: PartitionedTopic | None) -> dict[str, ClusterValue]:
    snapshot, settings = subject.page.reading.snapshot, subject.page.reading.settings
    return (
        live_ledger(subject.facts, topic)
        | live_settings(settings, RETENTION)
        | live_storage(snapshot, subject.facts.namespace)
    )


LEDGERS_CALCULATOR: Final = Calculator["PartitionedTopic | None"](
    title="Ledgers",
    parameters=(*LEDGER, *DISKS),
    controls=topic_choice,
    live=lambda subject, topic: (
        live_ledger(subject.facts, topic) | live_settings(subject.page.reading.settings, LEDGER)
    ),
    compute=_ledgers,
)
RETENTION_CALCULATOR: Final = Calculator["PartitionedTopic | None"](
    title="Retention",
    parameters=RETENTION,
    controls=topic_choice,
    live=_live_retention,
    compute=_retention,
)
