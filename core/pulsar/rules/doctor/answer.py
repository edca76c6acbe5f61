"""What the doctor says, in one sentence."""

from __future__ import annotations

from core.pulsar.rules.doctor.examine import Examination
from core.pulsar.rules.doctor.groups import BrokerGroup
from core.units import pluralize


def answer(found: Examination) -> str:
    """Return the one sentence on top: what needs a look, what differs, what is not known."""
    warned, doubted = len(found.warnings), len(found.doubted)
    compared = found.comparison
    if not compared.brokers:
        return "No broker is known, so its settings cannot be evaluated."
    start = _need(warned, doubted)
    apart = (
        f"the {pluralize(compared.brokers, 'broker')} differ in "
        f"{pluralize(len(compared.rows), 'thing')}"
        if compared.rows
        else f"all {compared.brokers} brokers have equal settings"
        if compared.brokers > 1
        else "there is one broker"
    )
    unknown = "; some settings could not be evaluated" if found.unjudged else ""
    return f"{start}, and {apart}; {_changed(found)}{unknown}."


def answer_of_file(found: Examination) -> str:
    """Return the one sentence on top for a configuration file."""
    return f"{_need(len(found.warnings), len(found.doubted))}; {_changed(found)}."


def _need(warned: int, doubted: int) -> str:
    if not warned and not doubted:
        return "No contradictions"
    if not warned:
        return f"{pluralize(doubted, 'thing')} may need attention: some settings were not read"
    return "1 problem needs attention" if warned == 1 else f"{warned} problems need attention"


def _changed(found: Examination) -> str:
    many = len(found.changed)
    return "1 setting is not the default" if many == 1 else f"{many} settings are not the defaults"


def group_words(group: BrokerGroup) -> str:
    """Return the members of a group, short enough for a column header."""
    mark = " (leader)" if group.has_leader else ""
    first = group.brokers[0]
    if len(group.brokers) == 1:
        return first + mark
    return f"{first} and {len(group.brokers) - 1} more{mark}"
