"""Our own HTTP routes under generated requests: no failure, no traceback, no input in a page."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, settings
from pages_server import pages_served

from connectors.access.users import UserFile
from connectors.sandbox.pulsar.fleet import Sandbox, SandboxOptions

HERE = Path(__file__).parent
GRANT = '[[access.grants]]\nrole="viewer"\npeople=["*"]\n'
SIGN_IN = {
    "none": "",
    "users": f'[access]\nsign_in = "users"\n{GRANT}',
    "proxy": f'[access]\nsign_in = "proxy"\n{GRANT}[access.proxy]\naddresses = ["127.0.0.1"]\n',
}
UNAVAILABLE = {"/readyz"}
MARKUP = "\"'><svg onload=zq7>"


def schema_of(name: str) -> Any:
    return schemathesis.openapi.from_dict(json.loads((HERE / name).read_text()))


OWN, SWITCHES = schema_of("own_routes.json"), schema_of("sandbox_routes.json")
FEW = settings(
    max_examples=20, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True
)
MANY = settings(max_examples=700, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.fixture(scope="module", params=SIGN_IN)
def pages(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Path]]:
    """Address and log of the pages, with each way of signing in."""
    folder = tmp_path_factory.mktemp(request.param)
    config = folder / "trimtab.toml"
    config.write_text(f'state_dir = "state"\n{SIGN_IN[request.param]}')
    UserFile(folder / "state" / "users.json").set_user("ann", "correct horse battery")
    with pages_served(folder, config=config) as port:
        yield f"http://127.0.0.1:{port}", folder / "log"


def check(case: Any, address: str, log: Path | None = None) -> None:
    """Send a generated request, and check what has to hold whatever it was."""
    try:
        answer = case.call(base_url=address, allow_redirects=False, timeout=60)
    except (requests.exceptions.InvalidHeader, UnicodeError):
        return  # the client itself cannot send it
    is_down = case.operation.path in UNAVAILABLE and answer.status_code == 503
    assert answer.status_code < 500 or is_down, (answer.status_code, answer.text[:500])
    assert "Traceback" not in answer.text
    if "text/html" in answer.headers.get("Content-Type", ""):
        for text in given(case):
            assert text not in answer.text
    assert log is None or b"Traceback" not in log.read_bytes()


def given(case: Any) -> Iterator[str]:
    """What of a request could be markup in an answer."""
    groups = (case.headers, case.query, case.path_parameters, case.body)
    for group in groups:
        values = group.values() if hasattr(group, "values") else [group]
        for value in values:
            if isinstance(value, str) and len(value) > 3 and set(value) & set("<>\"'"):
                yield value


@OWN.parametrize()
@FEW
def test_pages_answer_anything(case: Any, pages: tuple[str, Path]) -> None:
    check(case, *pages)


@pytest.mark.slow
@pytest.mark.timeout(3_600)
@OWN.parametrize()
@MANY
def test_pages_answer_very_much(case: Any, pages: tuple[str, Path]) -> None:
    check(case, *pages)


@pytest.mark.parametrize("path", ["/sign-in", "/sign-out", "/metrics", "/readyz", "/healthz"])
@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE", "OPTIONS", "HEAD", "TRACE"])
def test_markup_never_comes_back(pages: tuple[str, Path], method: str, path: str) -> None:
    address, log = pages
    names = ("X-Forwarded-User", "X-Forwarded-For", "Authorization", "Cookie", "Accept", "X-Any")
    answer = requests.request(
        method,
        address + path,
        params={"next": f"/{MARKUP}"},
        data={"name": MARKUP, "password": MARKUP},
        headers=dict.fromkeys(names, MARKUP),
        allow_redirects=False,
        timeout=60,
    )
    assert answer.status_code < 500 or path in UNAVAILABLE
    assert "<svg" not in answer.text
    assert "<svg" not in str(answer.headers)
    assert b"Traceback" not in log.read_bytes()


@pytest.fixture(scope="module")
def broker() -> Iterator[str]:
    with Sandbox(SandboxOptions(brokers=2, bundles=20)) as running:
        yield running.admin_urls[0]


@pytest.mark.zookeeper
@SWITCHES.parametrize()
@FEW
def test_switches_of_the_sandbox_answer_anything(case: Any, broker: str) -> None:
    check(case, broker)


@pytest.mark.slow
@pytest.mark.zookeeper
@SWITCHES.parametrize()
@MANY
def test_switches_of_the_sandbox_answer_very_much(case: Any, broker: str) -> None:
    check(case, broker)
