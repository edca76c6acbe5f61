"""The brokers' own ``/metrics/``, where there is no Prometheus server.

A broker exposes thousands of lines, most of them of single topics: only those that are wanted are
given to the parser. That is meant for small fleets; a Prometheus server answers for thousands of
brokers at once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from time import monotonic, time
from typing import Final, NamedTuple

from prometheus_client.parser import text_string_to_metric_families

from connectors.config.metrics import Prometheus
from connectors.config.model import ClusterConfig
from connectors.pulsar.admin.capture import RestCapture
from connectors.pulsar.admin.client import AdminClient
from connectors.pulsar.admin.errors import reason_of
from connectors.pulsar.metrics.errors import hinted
from connectors.pulsar.metrics.found import MetricValues
from connectors.pulsar.metrics.measures import (
    OF_BROKERS,
    OF_BUNDLES,
    WRITES,
    LabelMatcher,
    Measure,
    Series,
)
from connectors.transport.deadline import pause
from core.errors import ProtocolError
from core.snapshot.problems import ProblemLog

PATH: Final = "/metrics/"
MAX_LINES: Final = 4_000
"""Lines of one kind (bundles, or latencies by topic) that are parsed of one broker."""

_MAX_ALL_LINES: Final = 1_000_000

_MEASURES: Final = tuple(measure for group in OF_BROKERS.values() for measure in group)
_NAMES: Final = sorted(
    {series.metric for each in (*_MEASURES, *OF_BUNDLES) for series in each.series}
)
_LINE: Final = re.compile(rf"^({'|'.join(_NAMES)})(?=[{{ ])[^\n]*$".encode(), re.MULTILINE)
_LABEL: Final = r'[a-zA-Z_][a-zA-Z0-9_]*="[^"\\\n]*"'
_PLAIN: Final = re.compile(rf"(\w+)(?:\{{({_LABEL}(?:, ?{_LABEL})*),?\}})?", re.ASCII)
"""A series as brokers write nearly all of theirs: without escapes and extra spaces."""
_PLAIN_VALUE: Final = re.compile(r" ([^\s_]+)(?: -?[0-9]+)?", re.ASCII)
"""What follows it, without an exemplar."""
_MAX_SERIES: Final = 16_384
"""Series whose labels are remembered until the next capture: some 1 kB each."""
_PLAIN_LABEL: Final = re.compile(r'\b(\w+)="([^"]*)"', re.ASCII)
_IS_EXPOSITION: Final = re.compile(
    rb"^(?:# (?:TYPE|HELP) \S|[a-zA-Z_:][\w:]*(?:\{| \S))", re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class BrokerScrape:
    """Metrics of one broker at one moment.

    Attributes:
        at_s: Seconds since the epoch.
        values: By measure; counters as they stand.
        bundles: Rates by bundle.
        skipped: Lines of kinds that were too many to be parsed.
    """

    at_s: float
    values: dict[str, float]
    bundles: dict[str, dict[str, float]]
    skipped: int = 0


def exposed(body: bytes, at_s: float, *, has_bundles: bool = True) -> BrokerScrape:
    """Read what a broker exposes.

    Args:
        body: Text exposition format.
        at_s: When it was read.
        has_bundles: Whether rates of bundles are wanted.

    Raises:
        ValueError: It is no exposition, or one of the wanted lines is damaged.
    """
    if not _IS_EXPOSITION.search(body):
        raise ValueError(reason_of(body) or "it is empty")
    lines = _wanted(body)
    writes, spared = _bounded(WRITES, lines)
    pairs, more = _bounded(OF_BUNDLES if has_bundles else (), lines)
    values: dict[str, float] = {}
    for measure in (*(each for each in _MEASURES if each not in WRITES), *writes):
        if (number := _number(measure, lines)) is not None:
            values[measure.name] = number
    values["sampled_s"] = at_s
    bundles: dict[str, dict[str, float]] = {}
    for measure in pairs:
        for sample in _samples(measure.series[0], lines):
            if name := sample.labels.get("bundle"):
                bundles.setdefault(name, {})[measure.name] = sample.value
    return BrokerScrape(at_s, values, bundles, spared + more)


def _wanted(body: bytes) -> dict[str, list[bytes]]:
    lines: dict[str, list[bytes]] = {}
    for count, match in enumerate(_LINE.finditer(body)):
        if count > _MAX_ALL_LINES:
            raise ValueError(f"more than {_MAX_ALL_LINES:,} lines of one broker")
        lines.setdefault(match[1].decode(), []).append(match[0])
    return lines


def _bounded(
    measures: Sequence[Measure], lines: Mapping[str, Sequence[bytes]]
) -> tuple[Sequence[Measure], int]:
    """Return the measures, or none and the number of their lines where these are too many."""
    size = sum(len(lines.get(measure.series[0].metric, ())) for measure in measures)
    return (measures, 0) if size <= MAX_LINES else ((), size)


class _Sample(NamedTuple):
    labels: Mapping[str, str]
    key: tuple[tuple[str, str], ...]
    value: float


def _samples(series: Series, lines: Mapping[str, Sequence[bytes]]) -> list[_Sample]:
    unique = {
        sample.key: sample
        for sample in _parsed([line.decode() for line in lines.get(series.metric, ())])
        if all(_fits(sample, where) for where in series.where)
    }
    return list(unique.values())


def _parsed(lines: Sequence[str]) -> Iterable[_Sample]:
    """Parse lines of one metric; the library takes 10 times as long, and gets the unusual ones."""
    plain = [_plain_sample(line) for line in lines]
    if None not in plain:
        return [sample for sample in plain if sample is not None]
    families = text_string_to_metric_families("\n".join(lines) + "\n")
    return [
        _Sample(sample.labels, _key(sample.labels), sample.value)
        for family in families
        for sample in family.samples
    ]


def _plain_sample(line: str) -> _Sample | None:
    """Return what the library makes of a line; ``None``: it is unusual or damaged."""
    end = line.rfind("}") + 1 or line.find(" ")
    value = _PLAIN_VALUE.fullmatch(line, end)
    if value is None or (series := _plain_series(line[:end])) is None:
        return None
    number = value[1]
    try:  # as the library: sums of whole numbers stay exact
        is_whole = number.lstrip("+-").isdecimal()
        return _Sample(*series, int(number) if is_whole else float(number))
    except ValueError:
        return None


@lru_cache(_MAX_SERIES)
def _plain_series(text: str) -> tuple[Mapping[str, str], tuple[tuple[str, str], ...]] | None:
    """Return labels and key; every capture of a broker has nearly the same series."""
    match = _PLAIN.fullmatch(text)
    if match is None:
        return None
    pairs = _PLAIN_LABEL.findall(match[2] or "")
    labels = dict(pairs)
    # a name twice is an error, and one of the reserved names is not a label
    if len(labels) < len(pairs) or any(name.startswith("__") for name in labels):
        return None
    return labels, _key(labels)


def _key(labels: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(labels.items()))


def _fits(sample: _Sample, where: LabelMatcher) -> bool:
    value = sample.labels.get(where.label, "")
    if where.operator == "=":
        return value == where.value
    return re.fullmatch(where.value, value) is None


def _number(measure: Measure, lines: Mapping[str, Sequence[bytes]]) -> float | None:
    for series in measure.series:
        if samples := _samples(series, lines) if series.metric in lines else []:
            numbers = [sample.value for sample in samples]
            return float(sum(numbers) if measure.is_sum else max(numbers))
    return None


class Scraper:
    """Reads ``/metrics/`` of the brokers of one cluster; keeps the last reading for the rates.

    Args:
        source: Its ``prometheus``.
    Raises:
        ConfigError: A secret or a certificate cannot be read.
    """

    def __init__(self, config: ClusterConfig, source: Prometheus) -> None:
        self._source = source
        self._client = AdminClient(config)
        self._rest = RestCapture(config, self._client)
        self._before: dict[str, BrokerScrape] = {}

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def read(self, urls: Mapping[str, str], problems: ProblemLog) -> MetricValues:
        """Read every broker; twice where it was not read before.

        Args:
            urls: Broker id -> web address.
            problems: Gets what did not work; nothing is raised for it.
        """
        ends_at = monotonic() + self._source.timeout_s
        self._client.trust(urls.values())
        first = self._first(
            {name: url for name, url in urls.items() if name not in self._before}, problems
        )
        before = {**self._before, **first}
        self._rest.begin(ends_at)
        again = {name: url for name, url in urls.items() if name in before}
        now = {**first, **self._request_all(again, problems)}
        self._before = now
        found = MetricValues("scrape")
        for name, one in now.items():
            note_exposed(found, name, before.get(name), one)
        if skipped := sum(one.skipped for one in now.values()):
            problems.add(
                "budget",
                f"{PATH} of the brokers",
                f"{skipped:,} lines of topics or bundles were skipped in the brokers' metrics.",
                done="Write latencies or bundle rates are unknown; set a Prometheus url.",
                severity="info",
            )
        return found

    def _first(self, urls: Mapping[str, str], problems: ProblemLog) -> dict[str, BrokerScrape]:
        """Read brokers that were not read before, in half of the time: they are read once more."""
        self._rest.begin(monotonic() + self._source.timeout_s / 2)
        first = self._request_all(urls, problems) if urls else {}
        if first:
            pause(self._source.sample_s)
        return first

    def _request_all(
        self, urls: Mapping[str, str], problems: ProblemLog
    ) -> dict[str, BrokerScrape]:
        answers, silent = self._rest.request_each(urls, lambda name: self._one(urls[name]))
        for name, error in silent.items():
            problems.add(
                error.code,
                f"{urls[name]}{PATH}",
                hinted(error).message,
                done="Its metrics are unknown.",
                subject=f"metrics {error.code}",
            )
        return answers

    def _one(self, url: str) -> BrokerScrape:
        body = self._client.request("GET", url, PATH, max_bytes=self._client.limits.bulk_bytes).body
        try:
            return exposed(body, time(), has_bundles=self._source.has_bundles)
        except ValueError as exc:
            said = " ".join(str(exc).split())[:120].rstrip(".")
            raise ProtocolError(
                f"{url}{PATH} did not return broker metrics: {said}.",
                endpoint=url,
                operation=f"GET {PATH}",
                outcome="refused",
            ) from exc


def note_exposed(
    found: MetricValues, broker: str, before: BrokerScrape | None, now: BrokerScrape
) -> None:
    """Note what a broker exposes; counters become rates where there is a reading before."""
    rates = dict(_rates(before, now))
    counters = {measure.name for measure in _MEASURES if measure.kind == "counter"}
    for name, value in now.values.items():
        if name not in counters:
            found.note(broker, name, value)
    for name, value in rates.items():
        found.note(broker, name, value)
    if rates and before is not None:
        found.windows_s[broker] = now.at_s - before.at_s
    for bundle, values in now.bundles.items():
        for name, value in values.items():
            found.note_bundle(bundle, broker, name, value)


def _rates(before: BrokerScrape | None, now: BrokerScrape) -> Iterable[tuple[str, float]]:
    """Yield the increase a second of each counter; one that fell was reset with its process."""
    if before is None or now.at_s <= before.at_s:
        return
    for measure in _MEASURES:
        if measure.kind != "counter":
            continue
        last, value = before.values.get(measure.name), now.values.get(measure.name)
        if last is not None and value is not None and value >= last:
            yield measure.name, (value - last) / (now.at_s - before.at_s)
