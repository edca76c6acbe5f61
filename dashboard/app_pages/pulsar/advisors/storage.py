"""The advisors of ledgers, disks, compaction and retention."""

from __future__ import annotations

import streamlit as st

from core.errors import InputError
from core.planning.advisors.contradictions import contradictions
from core.planning.advisors.disks import disk_picture, disks_words
from core.planning.advisors.ledger import RolloverRule
from core.planning.advisors.retention import held_words, life_of_message
from dashboard.app_pages.pulsar.advisors import inputs, model
from dashboard.app_pages.pulsar.advisors.charts import (
    compaction_line,
    disk_bars,
    filling_lines,
    life_bars,
)
from dashboard.app_pages.pulsar.advisors.inputs import Subject, topic_choice, topics_button
from dashboard.components import figures, tables, words
from dashboard.presenters.pulsar.advisors_facts import live_ledger, live_settings, live_storage
from dashboard.presenters.pulsar.advisors_inputs import DISKS, LEDGER, RETENTION, Number


def draw_ledgers(subject: Subject) -> None:
    """Draw when the next ledger begins, how ledgers fill disks, and what compaction gives back."""
    said = st.container()
    chosen = topic_choice(subject)
    live = live_ledger(subject.facts, chosen)
    live |= live_settings(subject.page.reading.settings, LEDGER)
    given = inputs.draw(LEDGER, live)
    topics_button(subject)
    try:
        rule = model.rule_of(given)
        found = model.rollover_of(rule, given)
    except InputError as error:
        words.failed(error, what="That cannot be computed")
        return
    with said:
        words.answer(model.rollover_answer(found))
    if found is not None:
        left, right = st.columns([0.56, 0.44], gap="medium")
        with left:
            words.section(
                "How it fills", "Grey: the least age. Closed at the first bound after it."
            )
            figures.chart(
                filling_lines(model.filling(rule, found, given)),
                key="advisor_filling",
                alt=model.rollover_answer(found),
            )
        with right:
            words.section("The rule", "The least age, and any of the three.")
            tables.table(
                model.bounds_table(rule, found, given),
                {
                    "bound": tables.words("Bound"),
                    "mark": tables.words(""),
                    "minutes": st.column_config.NumberColumn("Reached after min", format="%,.1f"),
                    "full": tables.percent("At the end"),
                    "formula": tables.words("Arithmetic"),
                },
                key="advisor_bounds",
                alt="Bounds of a ledger",
                missing="never",
            )
            st.caption(
                "closed = (entries ≥ most entries, or size ≥ most size, or age ≥ longest age) and "
                "age > least age; looked at after each entry, and by a timer for the age."
            )
    _bookies(subject, rule)


def _bookies(subject: Subject, rule: RolloverRule) -> None:
    words.section("On the bookies", "Where ledgers lie, and what of deleted ones stays on disk.")
    given = inputs.draw(DISKS, {})
    left, right = st.columns(2, gap="medium")
    with left:
        _disks(subject, rule, int(given["directories"]))
    with right:
        _compaction(given)


def _disks(subject: Subject, rule: RolloverRule, directories: int) -> None:
    try:
        found = disk_picture(subject.page.reading.movable, rule, directories)
    except InputError as error:
        words.failed(error, what="That cannot be computed")
        return
    if found is None:
        st.info("No topic is known from this snapshot.", icon=":material/info:")
        return
    st.markdown(words.plain(disks_words(found, directories)))
    figures.chart(disk_bars(found), key="advisor_disks", alt=disks_words(found, directories))
    st.caption(
        "Live: topics and traffic of every bundle of the cluster. Assumed: equal topics in a "
        "bundle, one ledger each, numbered by chance, all on one bookie. More even ledgers (a "
        "lower maximum size) make more even disks."
    )


def _compaction(given: dict[str, Number]) -> None:
    try:
        rule = model.compaction_of(given)
        live_ratio = given["live_pct"] / 100
        text = model.compaction_words(rule, live_ratio)
    except InputError as error:
        words.failed(error, what="That cannot be computed")
        return
    st.markdown(words.plain(text))
    figures.chart(
        compaction_line(model.compaction_curve(rule, live_ratio)),
        key="advisor_compaction",
        alt=text,
    )


def draw_retention(subject: Subject) -> None:
    """Draw the life of a message, and what of the settings contradicts itself."""
    said = st.container()
    chosen = topic_choice(subject)
    live = live_ledger(subject.facts, chosen)
    live |= live_settings(subject.page.reading.settings, RETENTION)
    live |= live_storage(subject.page.reading.snapshot, subject.facts.namespace)
    given = inputs.draw(RETENTION, live)
    topics_button(subject)
    bytes_per_s = given["written"] * 1e6
    try:
        rule = model.retention_of(given)
        after = model.consumed_after(given)
        phases = life_of_message(rule, consumed_after_minutes=after, bytes_per_s=bytes_per_s)
    except InputError as error:
        words.failed(error, what="That cannot be computed")
        return
    answer = model.retention_answer(phases, held_words(rule, phases, bytes_per_s))
    with said:
        words.answer(answer)
    text = contradictions(
        rule,
        consumed_after_minutes=after,
        bytes_per_s=bytes_per_s,
        quota_megabytes=float(given["backlogQuotaDefaultLimitBytes"]),
    )
    words.section("The life of a message", "From its publishing; each phase at its longest.")
    figures.chart(
        life_bars(phases),
        key="advisor_life",
        alt=answer,
    )
    tables.table(
        model.phases_table(phases),
        {
            "phase": tables.words("Phase"),
            "from": tables.words("From"),
            "until": tables.words("Until at the latest"),
            "why": tables.words("Because"),
        },
        key="advisor_phases",
        alt="Phases of a message's life",
    )
    words.section("What does not go together")
    for sentence in text:
        st.warning(words.plain(sentence), icon=":material/warning:")
    if not text:
        st.success("Nothing: retention, time to live and backlog fit.", icon=":material/check:")
