"""Addresses that a cluster registers: what is asked, what gets credentials, what is named."""

from __future__ import annotations

import json
import socket

import pytest
from small_broker import SmallBroker, said, serve_cluster

from connectors.config.model import ClusterConfig
from connectors.pegasus.http.client import HttpClient
from connectors.pulsar.admin.client import AdminClient
from connectors.pulsar.check import _check_credentials
from connectors.pulsar.collect import PulsarCollector
from connectors.pulsar.topics.capture import service_addresses
from connectors.transport.addresses import (
    CredentialHosts,
    address_fault,
    origin_of,
    suggested_hosts,
)
from core.errors import ProtocolError, RemoteError, UnreachableError
from core.pulsar.snapshot.znodes.brokers import Registry, decode_registry
from core.pulsar.snapshot.znodes.readings import Readings
from core.snapshot.problems import ProblemLog

PATH = "/admin/v2/brokers"
TOKEN = {"token": "s3cret"}
QUICK = {"connect_s": 2, "read_s": 5, "answer_s": 5, "capture_s": 30}


def config_for(*urls: str, **changes) -> ClusterConfig:
    return ClusterConfig(**{"name": "c", "admin_urls": urls, "timeouts": QUICK, **changes})


def is_allowed(url: str, *hosts: str, admin: tuple[str, ...] = ("https://b-1.eu.example:8443",)):
    origin = origin_of(url)
    config = config_for(*admin, credential_hosts=list(hosts))
    return origin is not None and CredentialHosts(
        config.admin_urls, config.credential_hosts
    ).allows(origin)


@pytest.mark.parametrize(
    ("url", "hosts", "allowed"),
    [
        ("https://b-1.eu.example:8443", (), True),
        ("https://b-1.eu.example:9999", (), False),
        ("https://b-2.eu.example:8443", (), False),
        ("https://b-2.eu.example:8443", ("*.eu.example",), True),
        ("https://B-2.EU.example.:8443", ("*.eu.example",), True),
        ("https://b-2.eu.example:9999", ("*.eu.example",), False),
        ("https://b-2.eu.example:9999", ("*.eu.example:9999",), True),
        ("http://b-2.eu.example:8443", ("*.eu.example",), False),
        ("http://b-1.eu.example:8443", (), False),
        ("https://eu.example:8443", ("*.eu.example",), False),
        ("https://b-2.eu.example.evil.example:8443", ("*.eu.example",), False),
        ("https://evil-eu.example:8443", ("*.eu.example",), False),
        ("https://10.1.2.3:8443", ("10.1.0.0/16",), True),
        ("https://10.2.2.3:8443", ("10.1.0.0/16",), False),
        ("https://10.1.2.3.evil.example:8443", ("10.1.0.0/16",), False),
        ("https://[fd00::7]:8443", ("fd00::/64",), True),
        ("https://user@b-1.eu.example:8443", ("*.eu.example",), False),
    ],
)
def test_credentials_go_where_the_configuration_says(url, hosts, allowed) -> None:
    assert is_allowed(url, *hosts) == allowed


@pytest.mark.parametrize("entry", ["*", "*.", "https://b:1", "b/x", "10.0.0.1/8", "b:x", "", "a b"])
def test_an_entry_that_is_none_is_refused(entry) -> None:
    with pytest.raises(ValueError, match="credential_hosts"):
        config_for("http://b:1", credential_hosts=[entry])


@pytest.mark.parametrize(
    "url",
    [
        "ftp://b:1",
        "file:///etc/passwd",
        "http://user:pw@b:8080",
        "http://:pw@b:8080",
        "http://b:8080/proxy",
        "http://b:8080/?x=1",
        "http://b:8080?x",
        "http://b:8080#x",
        "http://b:99999",
        "http://[",
        "http://",
        "http://b :8080",
        "http://b\r\nHost: x:8080",
        "http://b\\@evil:8080",
        "http://169.254.169.254",
        "http://169.254.169.254:8080",
        "http://[fe80::1]:8080",
        "http://[fe80::1%25eth0]:8080",
        "http://[fd00:ec2::254]:80",
        "http://[::ffff:169.254.169.254]:80",
        "http://[64:ff9b::a9fe:a9fe]:80",
        "http://[2002:a9fe:a9fe::1]:80",
        "http://100.100.100.200",
        "http://168.63.129.16:8080",
        "http://192.0.0.192",
        "http://[fd20:ce::254]",
    ],
)
def test_an_address_that_no_broker_has_is_not_asked(url) -> None:
    assert address_fault(url)
    config = config_for("http://a:8080")
    assert config.web_address(url, None) is None


@pytest.mark.parametrize("url", ["http://b:8080", "https://10.0.0.1:8443/", "http://[fd00::1]:80"])
def test_plain_addresses_are_asked(url) -> None:
    assert address_fault(url) == ""


def test_a_token_is_not_sent_to_an_address_that_only_the_cluster_names() -> None:
    with SmallBroker() as broker, SmallBroker("127.0.0.2") as stranger:
        stranger.answers[PATH] = said([])
        client = AdminClient(config_for(broker.url, auth=TOKEN))
        client.trust([stranger.url])
        with pytest.raises(RemoteError) as caught:
            client.request("GET", stranger.url, PATH)
        client.close()
        assert stranger.requests == []
    assert caught.value.code == "credentials_withheld"
    assert caught.value.outcome == "not_sent"
    assert "credential_hosts" in caught.value.hint


def test_a_client_certificate_is_not_shown_to_an_address_that_only_the_cluster_names(
    tmp_path,
) -> None:
    for name in ("client.pem", "client.key"):
        (tmp_path / name).touch()
    tls = {"cert_file": tmp_path / "client.pem", "key_file": tmp_path / "client.key"}
    with SmallBroker() as broker, SmallBroker("127.0.0.2") as stranger:
        broker.answers[PATH] = (307, {"Location": f"{stranger.url}{PATH}"}, b"")
        config = config_for(broker.url, tls=tls)
        assert service_addresses(config, registry_of("pulsar://127.0.0.2:6650")) == {}
        client = AdminClient(config)
        client.trust([stranger.url])
        with pytest.raises(RemoteError) as caught:
            client.request("GET", stranger.url, PATH)
        with pytest.raises(ProtocolError, match="credential_hosts"):
            client.request("GET", broker.url, PATH)
        client.close()
        assert stranger.requests == []
    assert caught.value.code == "credentials_withheld"


def registry_of(url: str) -> Registry:
    record = {
        "pulsarServiceUrl": url,
        "brokerVersion": "4.2.4",
        "loadManagerClassName": "x.ExtensibleLoadManagerImpl",
    }
    return decode_registry(Readings(brokers={"a:1": json.dumps(record).encode()}), ProblemLog())


@pytest.mark.parametrize(
    ("url", "hosts", "allowed"),
    [
        ("pulsar://a.example:6650", (), True),
        ("pulsar://a.example", (), True),
        ("pulsar+ssl://a.example:6651", (), True),
        ("pulsar://a.example:6651", (), False),
        ("pulsar://a.example:9999", (), False),
        ("pulsar://a.example:9999", ("a.example:9999",), True),
        ("pulsar://b.example:6650", (), False),
        ("pulsar://b.example:6650", ("*.example",), True),
        ("pulsar://b.example:6650", ("*.example:8080",), True),
        ("pulsar://b.example:9999", ("*.example", "c.example:9999"), False),
        ("pulsar://169.254.169.254:6650", ("169.254.0.0/16",), False),
    ],
)
def test_service_addresses_get_credentials_by_host_and_port(url, hosts, allowed) -> None:
    config = config_for("http://a.example:8080", auth=TOKEN, credential_hosts=list(hosts))
    assert bool(service_addresses(config, registry_of(url))) == allowed


def test_without_credentials_every_broker_is_asked() -> None:
    with SmallBroker() as broker, SmallBroker("127.0.0.2") as other:
        other.answers[PATH] = said([])
        client = AdminClient(config_for(broker.url))
        client.trust([other.url])
        assert client.get(other.url, PATH, list[str]) == []
        client.close()
        assert "Authorization" not in other.requests[0][2]


def test_a_configured_host_gets_the_token() -> None:
    with SmallBroker() as broker, SmallBroker("127.0.0.2") as other:
        other.answers[PATH] = said([])
        client = AdminClient(config_for(broker.url, auth=TOKEN, credential_hosts=[other.name]))
        client.trust([other.url])
        client.get(other.url, PATH, list[str])
        client.close()
        assert other.requests[0][2]["Authorization"] == "Bearer s3cret"


@pytest.mark.parametrize("method", ["GET", "PUT"])
def test_a_redirect_carries_the_token_to_configured_hosts_only(method) -> None:
    with SmallBroker() as broker, SmallBroker("127.0.0.2") as owner:
        owner.answers[PATH] = said([])
        broker.answers[PATH] = (307, {"Location": f"{owner.url}{PATH}?authoritative=true"}, b"")
        strict = AdminClient(config_for(broker.url, auth=TOKEN))
        strict.trust([owner.url])
        with pytest.raises(ProtocolError, match="credential_hosts"):
            strict.request(method, broker.url, PATH)
        assert owner.requests == []
        strict.close()
        wide = AdminClient(config_for(broker.url, auth=TOKEN, credential_hosts=[owner.name]))
        assert wide.request(method, broker.url, PATH).status == 200
        wide.close()
        assert owner.requests[0][2]["Authorization"] == "Bearer s3cret"


@pytest.mark.parametrize(
    "target", ["/admin/v2/clusters/prod", "/admin/v2/brokers/..", "/", f"{PATH}/%2e%2e/x"]
)
def test_a_redirect_does_not_change_the_path(target) -> None:
    with SmallBroker() as broker:
        broker.answers[PATH] = (307, {"Location": f"{broker.url}{target}"}, b"")
        client = AdminClient(config_for(broker.url, auth=TOKEN))
        with pytest.raises(ProtocolError, match="another path"):
            client.request("PUT", broker.url, PATH)
        client.close()
        assert len(broker.requests) == 1


@pytest.mark.parametrize("address", ["169.254.169.254", "fe80::1", "fd00:ec2::254"])
def test_a_name_that_leads_to_a_link_local_address_gets_nothing(monkeypatch, address) -> None:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    found = [(family, socket.SOCK_STREAM, 6, "", (address, 8080))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    for name in ("connect", "connect_ex"):
        monkeypatch.setattr(socket.socket, name, lambda *_: pytest.fail("it was connected to"))
    client = AdminClient(config_for("http://meta.example:8080", auth=TOKEN))
    with pytest.raises(UnreachableError) as caught:
        client.request("GET", "http://meta.example:8080", PATH)
    client.close()
    assert "link-local" in caught.value.message
    node = HttpClient("meta.example:34801", timeout_s=1)
    with pytest.raises(UnreachableError, match="link-local"):
        node.fetch_version()
    node.close()


def test_a_name_is_looked_up_once_so_that_it_cannot_change_before_the_connection(
    monkeypatch,
) -> None:
    with SmallBroker() as broker:
        port = int(broker.name.rpartition(":")[2])
        lookups = [("127.0.0.1", port), ("169.254.169.254", port)]
        taken: list[str] = []

        def look_up(host, _port, flags=0, **_):
            if flags & socket.AI_NUMERICHOST:
                raise socket.gaierror(socket.EAI_NONAME, "a name")
            taken.append(host)
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", lookups.pop(0))]

        monkeypatch.setattr(socket, "getaddrinfo", look_up)
        url = f"http://rebinding.example:{port}"
        broker.answers[PATH] = said([])
        client = AdminClient(config_for(url))
        assert client.get(url, PATH, list[str]) == []
        client.close()
        assert taken == ["rebinding.example"]
        client = AdminClient(config_for(url))
        with pytest.raises(UnreachableError, match="link-local"):
            client.request("GET", url, PATH)
        client.close()
        assert len(broker.requests) == 1


def test_a_capture_names_the_brokers_that_get_no_credentials() -> None:
    with SmallBroker() as broker, SmallBroker("127.0.0.2") as stranger:
        serve_cluster(broker, (broker.name, stranger.name))
        collector = PulsarCollector(config_for(broker.url, auth=TOKEN))
        snapshot = collector.collect()
        collector.close()
        assert stranger.requests == []
    told = [one.what for one in snapshot.manifest.problems]
    assert any("Credentials were not sent" in text and stranger.name in text for text in told)


def test_the_check_says_which_brokers_get_no_credentials() -> None:
    urls = ["http://a.eu.example:8080", *(f"http://b{n}.us.example:8080" for n in range(5))]
    bare = _check_credentials(config_for(urls[0], auth=TOKEN), urls)
    assert not bare.ok
    assert bare.detail.startswith("5 of 6 addresses are not covered and not queried: http://b0.us")
    assert 'credential_hosts = ["*.us.example"]' in bare.remedy
    wide = config_for(urls[0], auth=TOKEN, credential_hosts=["*.us.example"])
    assert _check_credentials(wide, urls).ok


@pytest.mark.parametrize(
    ("urls", "entries"),
    [
        (["http://b1.p.example:8080"], ["b1.p.example:8080"]),
        ([f"http://b{n}.p.example:8080" for n in range(100)], ["*.p.example"]),
        ([f"http://10.1.2.{n}:8080" for n in range(9)], ["10.1.2.0/24"]),
        (["http://127.0.0.1:1", "http://127.0.0.1:2", "http://127.0.0.1:3"],
         ["127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"]),
    ],
)  # fmt: skip
def test_the_check_proposes_few_entries_for_many_brokers(urls, entries) -> None:
    assert suggested_hosts(urls) == entries
