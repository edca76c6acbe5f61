"""Does the configuration of a Pulsar cluster work? Every endpoint is tried."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final
from urllib.parse import quote, urlsplit

from connectors.check import CheckResult, fault
from connectors.config.model import ClusterConfig
from connectors.pulsar.admin.capture import ADMIN, RUNTIME, RestCapture
from connectors.pulsar.admin.client import AdminClient, CredentialsWithheldError
from connectors.pulsar.metrics.capture import MetricsReader
from connectors.transport.addresses import (
    CredentialHosts,
    address_fault,
    origin_of,
    suggested_hosts,
)
from connectors.zookeeper.client import ZooKeeperReader
from connectors.zookeeper.multi_read import GET_CHILDREN, GET_DATA, NO_AUTH, NO_NODE, ReadOperation
from core.errors import AuthError, ConfigError, OpsError, RemoteError
from core.pulsar.snapshot.znodes import Readings
from core.pulsar.snapshot.znodes import readings as roots
from core.pulsar.snapshot.znodes.brokers import Registry, decode_registry
from core.snapshot.problems import ProblemLog

_SHOWN: Final = 3
_FOLDERS: Final = (roots.BROKERS, roots.OWNERSHIP, roots.LOCAL_POLICIES, roots.POLICIES)
_MANAGERS: Final = {
    "modular": "ModularLoadManagerImpl: fully supported",
    "extensible": "ExtensibleLoadManagerImpl: only brokers, owners and topics",
    "simple": "SimpleLoadManagerImpl: not supported",
    "mixed": "several load managers at once",
    "unknown": "an unknown load manager",
}


def check_cluster(config: ClusterConfig) -> list[CheckResult]:
    """Try every endpoint of a cluster; never raises for one that does not work."""
    results: list[CheckResult] = []
    registry: Registry | None = None
    if config.zookeeper is None:
        results.append(
            CheckResult(
                what="ZooKeeper",
                ok=True,
                detail="Not configured; time averages are unknown.",
            )
        )
    else:
        registry = _check_zookeeper(config, results)
    if config.admin_urls:
        _check_admin(config, registry, results)
    else:
        results.append(
            CheckResult(
                what="Admin REST",
                ok=True,
                detail="Not configured; topics and the settings in broker.conf are unknown.",
            )
        )
    if config.prometheus is not None:
        _check_metrics(config, registry, results)
    return results


def _check_zookeeper(config: ClusterConfig, results: list[CheckResult]) -> Registry | None:
    what = f"ZooKeeper {config.zookeeper}"
    try:
        reader = ZooKeeperReader(config)
    except ConfigError as exc:
        results.append(fault(what, exc))
        return None
    try:
        reader.begin(config.read_budget, config.timeouts.capture_s)
        results.append(CheckResult(what=what, ok=True, detail="Connected."))
        return _check_folders(reader, what, results)
    except OpsError as exc:
        results.append(fault(what, exc))
        return None
    finally:
        reader.close()


def _check_folders(
    reader: ZooKeeperReader, what: str, results: list[CheckResult]
) -> Registry | None:
    answers = reader.read([ReadOperation(GET_CHILDREN, path) for path in _FOLDERS])
    for path, answer in zip(_FOLDERS, answers, strict=True):
        if answer.error == NO_AUTH:
            results.append(
                CheckResult(
                    what=f"{what} {path}",
                    ok=False,
                    detail="ZooKeeper does not allow Trimtab to read it.",
                    remedy="Set [clusters.zookeeper_auth], or grant read access to that identity.",
                )
            )
    if answers[0].error:
        if answers[0].error == NO_NODE:
            results.append(
                CheckResult(
                    what=f"{what} {roots.BROKERS}",
                    ok=False,
                    detail="The znode does not exist.",
                    remedy="Check the chroot; zookeeper accepts the brokers' metadataStoreUrl "
                    "unchanged.",
                )
            )
        return None
    names = sorted(answers[0].value)
    values = reader.read([ReadOperation(GET_DATA, f"{roots.BROKERS}/{name}") for name in names])
    readings = Readings(
        brokers={name: answer.value or b"" for name, answer in zip(names, values, strict=True)}
    )
    problems = ProblemLog()
    registry = decode_registry(readings, problems)
    manager = registry.load_manager
    unreadable = len({problem.place for problem in problems.named()})
    detail = f"{len(names)} brokers, release {registry.release or 'unknown'}, {_MANAGERS[manager]}."
    if unreadable:
        detail += f" {unreadable} reports are damaged."
    results.append(
        CheckResult(
            what=f"{what} {roots.BROKERS}",
            ok=bool(names) and manager not in ("simple", "unknown"),
            detail=detail,
            remedy="" if names else "No broker is registered. Start one, or check the chroot.",
        )
    )
    return registry


def _check_admin(
    config: ClusterConfig, registry: Registry | None, results: list[CheckResult]
) -> None:
    try:
        client = AdminClient(config)
    except ConfigError as exc:
        results.append(fault("Admin credentials", exc))
        return
    try:
        urls = {url: url for url in config.admin_urls}
        names, reports = (registry.names, registry.reports) if registry else ([], [])
        for name, report in zip(names, reports, strict=True):
            plain, tls = report.web_service_url, report.web_service_url_tls
            if url := config.web_address(plain, tls):
                urls[url] = url
            elif reason := address_fault(plain or tls or "") if plain or tls else "":
                results.append(_unasked(name, reason))
        if config.has_credentials:
            results.append(_check_credentials(config, list(urls)))
            urls = {url: url for url in urls if url not in _uncovered(config, urls)}
        client.trust(urls.values())
        rest = RestCapture(config, client)

        answering = _report(rest, urls, partial(_probe, client), results)
        if answering and config.has_credentials:
            results.append(_check_rights(config, client, answering[0]))
    finally:
        client.close()


def _probe(client: AdminClient, url: str) -> str:
    version = client.request("GET", url, f"{ADMIN}/brokers/version").body
    name = version.decode("utf-8", "replace").strip('"\n ')[:40]
    try:
        settings = client.get(url, RUNTIME, dict[str, str])
    except AuthError:  # the check of rights names it
        return f"Release {name}; its settings are not readable."
    cluster = settings.get("clusterName")
    return f"Release {name}, cluster {cluster}, {len(settings)} settings."


READS: Final[tuple[tuple[str, str, str], ...]] = (
    ("/brokers", "brokers", "rest"),
    ("/brokers/leaderBroker", "leader", "rest"),
    ("/brokers/configuration/runtime", "settings", "always"),
    ("/brokers/configuration/values", "dynamic settings", "rest"),
    ("/brokers/{cluster}/{broker}/ownedNamespaces", "owned bundles", "rest or extensible"),
    ("/broker-stats/load-report", "load reports", "rest"),
    ("/broker-stats/topics", "topics of a bundle", "always"),
    ("/clusters/{cluster}/namespaceIsolationPolicies", "isolation policies", "rest"),
    ("/clusters/{cluster}/failureDomains", "failure domains", "rest"),
    ("/resourcegroups", "resource groups", "rest"),
    ("/tenants", "tenants and namespaces", "rest"),
)
"""Path below ``/admin/v2``, what is read there, and when: always, or without ZooKeeper.

Source:
    Tried on Pulsar 4.2.4 with its own ``PulsarAuthorizationProvider``: each of them answers 401
    to a role that is no superuser; ``/brokers/version`` answers every role, ``/namespaces/TENANT``
    and below also the tenant's admin roles.
"""

_OPERATION: Final = re.compile(r"about operation \[(\w+)\]")


def _check_rights(config: ClusterConfig, client: AdminClient, url: str) -> CheckResult:
    """Try every endpoint that a capture reads, once, and name those that the role may not read."""
    broker = urlsplit(url).netloc
    cluster = config.pulsar_cluster or "standalone"
    with contextlib.suppress(RemoteError):
        cluster = client.get(url, f"{ADMIN}/clusters", list[str])[0]
    denied: list[str] = []
    needed = [one for one in READS if config.zookeeper is None or one[2] != "rest"]
    for path, what, _ in needed:
        place = path.format(cluster=quote(cluster), broker=quote(broker, safe=":"))
        try:
            client.request("GET", url, f"{ADMIN}{place}")
        except AuthError as exc:
            operation = _OPERATION.search(exc.message)
            grant = f" (operation {operation[1]})" if operation else ""
            denied.append(f"{what}: GET {ADMIN}{path}{grant}")
        except RemoteError:
            continue  # not a matter of rights: what could not be read is in every snapshot
    name = f"Rights at {url}"
    if not denied:
        detail = f"The role can read all {len(needed)} endpoints of a capture."
        return CheckResult(what=name, ok=True, detail=detail)
    return CheckResult(
        what=name,
        ok=False,
        detail=f"The role cannot read {len(denied)} of {len(needed)} endpoints: "
        f"{'; '.join(denied)}.",
        remedy="Pulsar's own authorization allows them to superusers only: add the role to "
        "superUserRoles in broker.conf, or use an authorization provider that allows "
        "them."
        + ("" if config.zookeeper else " With zookeeper configured, fewer of them are needed."),
    )


def _unasked(broker: str, fault: str) -> CheckResult:
    return CheckResult(
        what=f"Broker {broker}",
        ok=False,
        detail=f"It registered a web address that is not used: {fault}.",
        remedy="Check the broker's advertisedAddress and the write access to ZooKeeper.",
    )


def _uncovered(config: ClusterConfig, urls: Iterable[str]) -> list[str]:
    """Return the addresses that get no credentials."""
    named = CredentialHosts(config.admin_urls, config.credential_hosts)
    origins = {url: origin_of(url) for url in urls}
    return [url for url, origin in origins.items() if origin and not named.allows(origin)]


def _check_credentials(config: ClusterConfig, urls: list[str]) -> CheckResult:
    """Report the brokers that get no credentials, and the setting that covers them."""
    uncovered = _uncovered(config, urls)
    if not uncovered:
        detail = f"admin_urls and credential_hosts cover {len(urls)} of {len(urls)} addresses."
        return CheckResult(what="Credentials", ok=True, detail=detail)
    more = f" and {len(uncovered) - _SHOWN} more" if uncovered[_SHOWN:] else ""
    entries = json.dumps([*config.credential_hosts, *suggested_hosts(uncovered)])
    return CheckResult(
        what="Credentials",
        ok=False,
        detail=f"{len(uncovered)} of {len(urls)} addresses are not covered and not queried: "
        f"{', '.join(uncovered[:_SHOWN])}{more}.",
        remedy=f"If these are your brokers, set credential_hosts = {entries} under [[clusters]].",
    )


def _check_metrics(
    config: ClusterConfig, registry: Registry | None, results: list[CheckResult]
) -> None:
    """Read the metrics as a capture does, and count the brokers in them."""
    source = config.prometheus
    what = f"Prometheus {source.url}" if source and source.url else "Metrics of the brokers"
    urls = {urlsplit(url).netloc: url for url in config.admin_urls}
    if registry is not None and registry.names:
        urls = {
            name: config.web_address(report.web_service_url, report.web_service_url_tls) or ""
            for name, report in zip(registry.names, registry.reports, strict=True)
        }
    problems = ProblemLog()
    try:
        reader = MetricsReader(config)
    except ConfigError as exc:
        results.append(fault(what, exc))
        return
    try:
        reachable = {name: url for name, url in urls.items() if url}
        metrics = reader.read(list(urls), reachable, problems)
    finally:
        reader.close()
    rows = {name: table.num_rows for name, table in metrics.tables.items()}
    brokers = rows.get("broker_metrics", 0)
    detail = [f"{brokers} of {len(urls)} brokers, {rows.get('bundle_metrics', 0):,} bundles."]
    results.append(
        CheckResult(
            what=what,
            ok=bool(brokers),
            detail=" ".join([*detail, *metrics.lacks]),
            remedy="" if brokers else "See below.",
        )
    )
    results += [
        CheckResult(
            what=f"Metrics {problem.place}", ok=False, detail=problem.what, remedy=problem.done
        )
        for problem in problems.named()
        if problem.code != CredentialsWithheldError.code  # named once, for all of them
    ]


def _report(
    rest: RestCapture,
    urls: dict[str, str],
    probe: Callable[[str], str],
    results: list[CheckResult],
) -> list[str]:
    """Add the result of each address; return those that answered, in their order."""
    answers, silent = rest.request_each(urls, probe)
    for url in urls:
        what = f"Admin REST {url}"
        if url in silent:
            results.append(fault(what, silent[url]))
        else:
            results.append(CheckResult(what=what, ok=True, detail=answers[url]))
    return [url for url in urls if url in answers]
