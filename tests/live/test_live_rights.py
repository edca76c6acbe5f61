"""A real broker with authorization on, read through its REST alone: what each role may read."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest
from pulsar_files import CLUSTER
from real_pulsar import RealPulsar, RealPulsarOptions

from connectors.config.model import ClusterConfig
from connectors.pulsar.check import READS, check_cluster
from connectors.pulsar.collect import PulsarCollector
from core.errors import AuthError
from core.snapshot import PulsarSnapshot

KEY = secrets.token_bytes(32)
CLIENT = "org.apache.pulsar.client.impl.auth.AuthenticationToken"
PROVIDER = "org.apache.pulsar.broker.authentication.AuthenticationProviderToken"


def token(role: str) -> str:
    """Return a JSON Web Token of a role, signed with the broker's key."""
    parts = [{"alg": "HS256"}, {"sub": role}]
    head = ".".join(_text(json.dumps(part).encode()) for part in parts)
    return f"{head}.{_text(hmac.new(KEY, head.encode(), hashlib.sha256).digest())}"


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealPulsar]:
    settings = {
        "authenticationEnabled": True,
        "authenticationProviders": PROVIDER,
        "tokenSecretKey": f"data:;base64,{base64.b64encode(KEY).decode()}",
        "authorizationEnabled": True,
        "superUserRoles": "admin",
        "brokerClientAuthenticationPlugin": CLIENT,
        "brokerClientAuthenticationParameters": f"token:{token('admin')}",
    }
    options = RealPulsarOptions(
        brokers=1,
        broker_settings=settings,
        headers={"Authorization": f"Bearer {token('admin')}"},
    )
    with RealPulsar(tmp_path_factory.mktemp("rights"), options) as cluster:
        tenant = {"adminRoles": ["owner"], "allowedClusters": [CLUSTER]}
        cluster.request("PUT", "/admin/v2/tenants/acme", json=tenant).raise_for_status()
        for name in ("plain", "a:b", "c:8080"):
            body = {"bundles": {"numBundles": 4}}
            path = f"/admin/v2/namespaces/acme/{name}"
            cluster.request("PUT", path, json=body).raise_for_status()
        yield cluster


def config_of(cluster: RealPulsar, role: str, folder: Path) -> ClusterConfig:
    secret = folder / role
    secret.write_text(token(role))
    secret.chmod(0o600)
    urls = list(cluster.admin_urls)
    return ClusterConfig(name="real", admin_urls=urls, auth={"token_file": secret})


def capture(config: ClusterConfig) -> PulsarSnapshot:
    collector = PulsarCollector(config)
    try:
        return collector.collect()
    finally:
        collector.close()


def test_every_endpoint_that_is_read_is_for_superusers(guarded: RealPulsar) -> None:
    for path, _, _ in READS:
        place = path.format(cluster=CLUSTER, broker=guarded.brokers[0])
        answers = {
            role: guarded.request(
                "GET", f"/admin/v2{place}", headers={"Authorization": f"Bearer {token(role)}"}
            ).status_code
            for role in ("owner", "admin")
        }
        assert answers["owner"] == 401, place
        assert answers["admin"] in (200, 404), place


def test_check_names_each_missing_right_and_goes_on(guarded: RealPulsar, tmp_path: Path) -> None:
    results = {one.what: one for one in check_cluster(config_of(guarded, "owner", tmp_path))}
    url = guarded.admin_urls[0]
    assert results[f"Admin REST {url}"].ok
    assert "settings are not readable" in results[f"Admin REST {url}"].detail
    rights = results[f"Rights at {url}"]
    assert not rights.ok
    assert f"{len(READS)} of {len(READS)} endpoints" in rights.detail
    assert "GET /admin/v2/broker-stats/load-report" in rights.detail
    assert "LIST_RUNTIME_CONFIGURATIONS" in rights.detail
    assert "superUserRoles" in rights.remedy


def test_check_of_a_superuser_finds_every_right(guarded: RealPulsar, tmp_path: Path) -> None:
    results = check_cluster(config_of(guarded, "admin", tmp_path))
    assert all(one.ok for one in results), results
    assert any(one.what.startswith("Rights at") for one in results)


def test_capture_without_rights_names_them(guarded: RealPulsar, tmp_path: Path) -> None:
    with pytest.raises(AuthError) as refused:
        capture(config_of(guarded, "owner", tmp_path))
    assert "trimtab check" in refused.value.hint


def test_rest_alone_has_namespaces_with_a_colon_and_names_its_gaps(
    guarded: RealPulsar, tmp_path: Path
) -> None:
    snapshot = capture(config_of(guarded, "admin", tmp_path))
    rows = snapshot.namespaces.to_pylist()
    bound = {row["namespace"]: row["is_broker_bound"] for row in rows}
    assert {"acme/plain", "acme/a:b", "acme/c:8080"} <= set(bound)
    assert not bound["acme/a:b"]
    assert not bound["acme/c:8080"]
    bundles = snapshot.bundles["namespace"].to_pylist()
    assert bundles.count("acme/a:b") == bundles.count("acme/plain") == 4
    lacks = " ".join(snapshot.manifest.unavailable)
    for gap in ("resource quotas", "time averages", "sessions"):
        assert gap in lacks
