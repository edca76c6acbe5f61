"""Every exception that the libraries can raise is one of ours at the border."""

from __future__ import annotations

import inspect

import pytest
import requests.exceptions
import urllib3.exceptions
from kazoo import exceptions as kazoo_errors

from connectors.pulsar.admin import errors as http_errors
from connectors.zookeeper import errors as zookeeper_errors
from core.errors import ProtocolError, RemoteError, UnreachableError


def kazoo_classes() -> list[type[Exception]]:
    return sorted(set(kazoo_errors.EXCEPTIONS.values()), key=lambda kind: kind.__name__)


@pytest.mark.parametrize("kind", kazoo_classes(), ids=lambda kind: kind.__name__)
def test_every_code_of_zookeeper_is_mapped(kind: type[Exception]) -> None:
    assert zookeeper_errors.kind_of(kind()) is not None
    ours = zookeeper_errors.translate(kind(), endpoint="zookeeper z:1", operation="read /x")
    assert isinstance(ours, RemoteError)
    assert "zookeeper z:1" in ours.message


def http_classes() -> list[type[Exception]]:
    found = {
        kind
        for module in (requests.exceptions, urllib3.exceptions)
        for _, kind in inspect.getmembers(module, inspect.isclass)
        if issubclass(kind, Exception)
        and not issubclass(kind, Warning)
        and kind.__module__ == module.__name__
    }
    return sorted(found, key=lambda kind: (kind.__module__, kind.__name__))


@pytest.mark.parametrize("kind", http_classes(), ids=lambda kind: kind.__name__)
def test_every_exception_of_the_http_libraries_is_mapped(kind: type[Exception]) -> None:
    raised = kind.__new__(kind)
    ours = http_errors.translate(raised, endpoint="http://b:1", operation="GET /x")
    assert isinstance(ours, RemoteError)
    assert "not known" not in ours.message
    assert ours.message.startswith("http://b:1 ")


def test_tls_trouble_is_not_called_a_network_fault() -> None:
    ours = http_errors.translate(
        requests.exceptions.SSLError("bad"), endpoint="https://b:1", operation="GET /x"
    )
    assert isinstance(ours, UnreachableError)
    assert "TLS" in ours.message


def test_something_unheard_of_is_a_protocol_error() -> None:
    assert isinstance(
        zookeeper_errors.translate(KeyError("x"), endpoint="z", operation="read"), ProtocolError
    )


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b'{"reason":"Namespace not found"}', "Namespace not found"),
        (b'{"reason":" two\\n lines. "}', "two lines"),
        (b"<html><title>Error 404 &amp; more</title>", "Error 404 & more"),
        (b"plain words", "plain words"),
        (b"", ""),
        (b'{"reason":"Message: it broke\\n\\tat a.b.C.d(C.java:1)"}', "it broke"),
        (b"a.b.SomeException: why it broke\n\tat a.b.C.d(C.java:1)", "SomeException: why it broke"),
        (b"\x1b[31mred\x07", "[31mred"),
    ],
)
def test_reason_of_an_error_body_is_one_clean_line(body: bytes, reason: str) -> None:
    assert http_errors.reason_of(body) == reason
