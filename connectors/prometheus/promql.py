"""The expressions that a Prometheus server is asked for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from connectors.prometheus.measures import Measure, Series

MEASURE = "trimtab_measure"
"""Label of the answer that names the measure, so that one question fetches many."""


def expression(
    measures: Sequence[Measure],
    by: Sequence[str],
    labels: Mapping[str, str],
    window_s: int,
) -> str:
    """Return one expression for many measures.

    Args:
        measures: What is wanted.
        by: Labels that remain.
        labels: What the series of the cluster carry.
        window_s: Over which counters become rates.

    A broker that two jobs scrape has every series twice: the sums are made by job, and the largest
    of them counts. Of several names of one measure the first that a broker has counts.
    """
    return " or ".join(_tagged(measure, by, labels, window_s) for measure in measures)


def count(metric: str, by: Sequence[str], labels: Mapping[str, str]) -> str:
    """Return the expression for how many series of a metric there are."""
    grouped = f" by ({', '.join(by)})" if by else ""
    return f"count{grouped} ({selector(Series(metric), labels)})"


def selector(series: Series, labels: Mapping[str, str]) -> str:
    """Return ``metric{label="value",...}`` with values quoted."""
    own = [f"{each.label}{each.operator}{quoted(each.value)}" for each in series.where]
    given = [f"{name}={quoted(value)}" for name, value in sorted(labels.items())]
    return f"{series.metric}{{{','.join([*given, *own])}}}"


def quoted(text: str) -> str:
    """Return a PromQL string."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _tagged(measure: Measure, by: Iterable[str], labels: Mapping[str, str], window_s: int) -> str:
    kept = ", ".join(by)
    each = [
        f"max by ({kept}) ({'sum' if measure.is_sum else 'max'} by ({kept}, job) "
        f"({_counted(measure, selector(series, labels), window_s)}))"
        for series in measure.series
    ]
    return f'label_replace({" or ".join(each)}, "{MEASURE}", "{measure.name}", "", "")'


def _counted(measure: Measure, selected: str, window_s: int) -> str:
    match measure.kind:
        case "gauge":
            return selected
        case "counter":
            return f"rate({selected}[{window_s}s])"
        case "sampled":
            return f"timestamp({selected})"
