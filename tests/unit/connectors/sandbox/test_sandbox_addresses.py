"""Addresses of the sandboxes: those of an earlier run are taken again, so names stay."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from connectors.sandbox.pegasus.cluster import choose_ports
from connectors.sandbox.pulsar.web import Address, listen
from dashboard.cli.sandbox_config import former_addresses, save_addresses


@contextmanager
def listening(brokers: int, former: list[Address]) -> Iterator[list[Address]]:
    sockets = listen(brokers, 0, former)
    try:
        yield [sock.getsockname()[:2] for sock in sockets]
    finally:
        for sock in sockets:
            sock.close()


def free_ports(count: int) -> tuple[int, ...]:
    probes = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = tuple(probe.getsockname()[1] for probe in probes)
    for probe in probes:
        probe.close()
    return ports


def test_brokers_take_the_addresses_of_the_earlier_run_also_when_there_are_more() -> None:
    [port] = free_ports(1)
    former = [(f"127.0.1.{row}", port) for row in (1, 2)]
    with listening(2, former) as again:
        assert again == former
        with listening(2, former) as others:
            assert {taken for _, taken in others} != {port}, "taken ones are left to their owner"
    with listening(3, former) as more:
        assert more == [*former, ("127.0.1.3", port)]


def test_brokers_on_a_shared_host_take_their_ports_again() -> None:
    former = [("127.0.0.1", port) for port in free_ports(3)]
    with listening(3, former) as again:
        assert again == former


def test_servers_take_the_ports_of_the_earlier_run_if_all_are_free() -> None:
    first, *former = free_ports(3)
    assert choose_ports(first, 2, former) == tuple(former)
    with socket.create_server(("127.0.0.1", former[1])):
        assert choose_ports(first, 2, former) != tuple(former)


def test_addresses_are_saved_next_to_the_configuration_of_the_sandbox(tmp_path) -> None:
    config = tmp_path / "sandbox-pegasus.toml"
    assert former_addresses(None, "nodes") == former_addresses(config, "nodes") == []
    save_addresses(config, nodes=["localhost:40001"], metas=["localhost:40002", "127.0.0.1:4"])
    assert former_addresses(config, "nodes") == ["localhost:40001"]
    assert former_addresses(config, "metas") == ["localhost:40002", "127.0.0.1:4"]
    assert former_addresses(config, "brokers") == []


@pytest.mark.parametrize(
    "content",
    ["", "[]", '{"nodes": 7}', '{"nodes": ["10.0.0.1:80"]}', '{"nodes": ["localhost:99999"]}'],
)
def test_unreadable_addresses_are_ignored(tmp_path, content) -> None:
    (tmp_path / "sandbox.addresses.json").write_text(content)
    assert former_addresses(tmp_path / "sandbox.toml", "nodes") == []
