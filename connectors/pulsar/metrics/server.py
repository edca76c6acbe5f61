"""A Prometheus server: PromQL for the measures, sent as a handful of instant queries a capture."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from time import monotonic
from typing import Final
from urllib.parse import urlencode, urlsplit

import msgspec

from connectors.config.metrics import Prometheus
from connectors.config.model import ClusterConfig, Timeouts
from connectors.pulsar.admin.client import AdminClient, Dialect
from connectors.pulsar.metrics.errors import HINTS, error_of_answer, hinted
from connectors.pulsar.metrics.found import BrokerNames, MetricValues, found_by_broker
from connectors.pulsar.metrics.measures import (
    MAX_BUNDLES,
    OF_BROKERS,
    OF_BUNDLES,
    Measure,
    Series,
)
from core.errors import InputError, ProtocolError, RemoteError, ServerError
from core.snapshot.problems import ProblemLog

_QUERY: Final = "/api/v1/query"
_FORM: Final = "application/x-www-form-urlencoded"
_BUNDLE: Final = "bundle"
_CONNECT_S: Final = 5.0

MEASURE = "trimtab_measure"
"""Label of the answer that names the measure, so that one question fetches many."""


class Point(msgspec.Struct):
    """One element of an instant vector: its labels, its moment and its value as text."""

    metric: dict[str, str]
    value: tuple[float, str]

    @property
    def number(self) -> float:
        """The value; NaN and infinities are written out as words."""
        return float(self.value[1])


class _Data(msgspec.Struct):
    resultType: str  # noqa: N815  # as the server writes it
    result: msgspec.Raw


class _Answer(msgspec.Struct):
    status: str
    data: _Data | None = None
    error: str = ""
    warnings: list[str] = []


class PrometheusServer:
    """Queries the server of one cluster.

    Args:
        source: Its ``prometheus``, with a ``url``.
    Attributes:
        place: The address, for problems.
    Raises:
        ConfigError: A secret or a certificate cannot be read.
    """

    def __init__(self, config: ClusterConfig, source: Prometheus) -> None:
        self._source = source
        self.place = source.url or ""
        parts = urlsplit(self.place)
        self._address, self._prefix = f"{parts.scheme}://{parts.netloc}", parts.path
        budget = source.timeout_s
        own = config.model_copy(
            update={
                "admin_urls": [self._address],
                "credential_hosts": [],
                "auth": source.auth,
                "tls": source.tls,
                "timeouts": Timeouts(
                    connect_s=min(_CONNECT_S, budget), read_s=budget, answer_s=budget
                ),
            }
        )
        dialect = Dialect(_FORM, error_of_answer, frozenset({"POST"}))
        self._client = AdminClient(own, dialect)
        self._warnings: list[str] = []

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def read(self, brokers: Iterable[str], problems: ProblemLog) -> MetricValues:
        """Query every measure of these brokers.

        Args:
            brokers: Their ids.
            problems: Gets what did not work; nothing is raised for it.
        """
        found = MetricValues("prometheus")
        self._client.end_by(monotonic() + self._source.timeout_s)
        self._warnings.clear()
        try:
            self._client.renew_credentials()
            answers = [self._measured(group) for group in OF_BROKERS]
            points = [point for answer in answers for point in answer]
            values = {point.metric.get(self._source.broker_label, "") for point in points}
            known = self._whose(values, brokers, problems)
            for point in points:
                if broker := known.get(point.metric.get(self._source.broker_label, "")):
                    found.note(broker, point.metric[MEASURE], point.number)
                    found.windows_s[broker] = float(self._source.window_s)
            if known and self._source.has_bundles:
                self._read_bundles(found, known, problems)
        except RemoteError as exc:
            problems.add(
                exc.code,
                self.place,
                hinted(exc).message,
                done=f"Its measures are unknown. {exc.hint}".strip(),
            )
        except InputError as exc:  # a secret that cannot be read
            problems.add(exc.code, self.place, exc.message, done=exc.hint)
        for warning in dict.fromkeys(self._warnings):
            problems.add("inconsistent", self.place, f"Warning: {warning[:200].rstrip('.')}.")
        return found

    def vector(self, expression: str) -> list[Point]:
        """Return the instant vector of an expression.

        Raises:
            RemoteError: It could not be reached, or refused.
        """
        body = urlencode({"query": expression, "timeout": f"{self._source.timeout_s:g}s"})
        path = f"{self._prefix}{_QUERY}"
        answer = self._client.request("POST", self._address, path, body=body.encode())
        try:
            said = msgspec.json.decode(answer.body, type=_Answer)
            if said.status == "success" and said.data is not None:
                self._warnings += said.warnings
                return _points(said.data)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError) as exc:
            raise ProtocolError(
                f"{self.place} did not return an instant vector to POST {_QUERY}.",
                endpoint=self.place,
                operation=f"POST {_QUERY}",
                outcome="refused",
                hint=HINTS[ProtocolError],
            ) from exc
        raise ServerError(
            f"{self.place} could not answer POST {_QUERY}: {said.error[:200].rstrip('.')}.",
            endpoint=self.place,
            operation=f"POST {_QUERY}",
            outcome="refused",
            hint=HINTS[ServerError],
        )

    def nothing_matches(self) -> str:
        """Return the sentence for a server that has nothing of this cluster."""
        labels = ", ".join(f'{name}="{text}"' for name, text in self._source.labels.items())
        with_labels = f" with the labels {labels}" if labels else ""
        return f"{self.place} has no metrics of Pulsar brokers{with_labels}."

    # -- parts --------------------------------------------------------------------------------

    def _measured(self, group: str) -> Sequence[Point]:
        source = self._source
        return self.vector(
            expression(OF_BROKERS[group], (source.broker_label,), source.labels, source.window_s)
        )

    def _whose(
        self, values: set[str], brokers: Iterable[str], problems: ProblemLog
    ) -> dict[str, str]:
        label = self._source.broker_label
        if not values:
            problems.add(
                "missing",
                self.place,
                self.nothing_matches(),
                done="Check labels of [clusters.prometheus], and that it scrapes the brokers.",
            )
        elif values == {""}:
            problems.add(
                "missing",
                self.place,
                f"Its broker series have no label {label}; the brokers cannot be distinguished.",
                done="Set another broker_label in [clusters.prometheus].",
            )
        return found_by_broker(values - {""}, BrokerNames(brokers), self.place, problems)

    def _read_bundles(
        self, found: MetricValues, known: dict[str, str], problems: ProblemLog
    ) -> None:
        source = self._source
        counted = self.vector(count(OF_BUNDLES[0].series[0].metric, (), source.labels))
        size = int(counted[0].number) if counted else 0
        if size > MAX_BUNDLES:
            problems.add(
                "budget",
                self.place,
                f"It has the rates of {size:,} bundles; the maximum is {MAX_BUNDLES:,}.",
                done="No bundle rate is read; set has_bundles = false to disable the query.",
                severity="info",
            )
        if not 0 < size <= MAX_BUNDLES:
            return
        by = (source.broker_label, _BUNDLE)
        query = expression(OF_BUNDLES, by, source.labels, source.window_s)
        for point in self.vector(query):
            broker = known.get(point.metric.get(source.broker_label, ""))
            bundle = point.metric.get(_BUNDLE)
            if broker and bundle:
                found.note_bundle(bundle, broker, point.metric[MEASURE], point.number)


def _points(data: _Data) -> list[Point]:
    if data.resultType != "vector":
        raise ValueError(data.resultType)
    points = msgspec.json.decode(data.result, type=list[Point])
    for point in points:
        float(point.value[1])  # a text that is no number spoils the whole answer
    return points


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
    label_names = ", ".join(by)
    each = [
        f"max by ({label_names}) ({'sum' if measure.is_sum else 'max'} by ({label_names}, job) "
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
