"""Arrays and objects in each other, 20,000 deep: an input error or no value, never a traceback."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from connectors.access.users import UserFile
from connectors.journal.anchor import read_anchors
from connectors.journal.archive import read_archive
from connectors.pegasus.rpc.parse import parse_command_answer, parse_operation_counts
from connectors.pulsar.leader.observer import read_forecast
from connectors.pulsar.leader.recording import _public_settings
from connectors.recording.steps import last_place
from connectors.worker.status import read_status_file
from core.errors import OpsError
from core.history.backtest.parsing import parse_grid
from core.pegasus.trace_form import parse_trace
from core.plan.codec import load_plan
from core.pulsar.policy_kinds import policy_kind
from core.pulsar.settings import parse_set_options
from core.snapshot.store import load_manifest
from core.systems import STEPS
from core.values import by_server
from dashboard.cli.requests import read_list
from dashboard.queries.snapshots import collector_status
from dashboard.services.metrics import _read as read_status

DEPTH = 20_000
DEEP = {
    "arrays": "[" * DEPTH + "]" * DEPTH,
    "objects": '{"a":' * DEPTH + "1" + "}" * DEPTH,
    "open": "[" * DEPTH,
}
REFUSED: dict[str, Callable[[Path, str], object]] = {
    "manifest": lambda file, _: load_manifest(file.parent),
    "grid": lambda _, text: parse_grid(text),
    "question": lambda _, text: parse_trace(text.encode(), "a file"),
    "plan": lambda file, _: load_plan(file, STEPS),
    "policy": lambda _, text: policy_kind("isolation").canonical(text),
    "--set": lambda _, text: parse_set_options([f"loadBalancerEnabled={text}"]),
    "bundles": lambda file, _: read_list(file),
    "users": lambda file, _: UserFile(file).users(),
    "anchors": lambda file, _: read_anchors(file, b"k" * 32),
    "archive": lambda file, _: list(read_archive(file)),
}
NO_VALUE: dict[str, tuple[Callable[[Path, str], object], Any]] = {
    "values by server": (lambda _, text: by_server(text), None),
    "worker": (lambda file, _: read_status_file(file), None),
    "forecast": (lambda file, _: read_forecast(file), None),
    "events": (lambda _, text: last_place([text]), 0),
    "collector": (lambda file, _: collector_status(file), {}),
    "metrics": (lambda file, _: read_status(file), {}),
    "operations": (lambda _, text: parse_operation_counts(text), None),
    "settings": (lambda _, text: _public_settings(text), ""),
}


@pytest.fixture(params=DEEP)
def text(request: pytest.FixtureRequest) -> str:
    return DEEP[request.param]


@pytest.fixture
def file(tmp_path: Path, text: str) -> Path:
    found = tmp_path / "manifest.json"
    found.write_text(text + "\n")
    found.chmod(0o600)
    return found


@pytest.mark.parametrize("reader", REFUSED)
def test_what_is_given_is_an_input_error(file: Path, text: str, reader: str) -> None:
    with pytest.raises(OpsError) as caught:
        REFUSED[reader](file, text)
    assert len(caught.value.message) < 1_000 or reader in ("--set", "policy")


@pytest.mark.parametrize("reader", NO_VALUE)
def test_what_is_stored_or_answered_is_as_if_it_were_not_there(file, text, reader) -> None:
    read, nothing = NO_VALUE[reader]
    assert read(file, text) == nothing


def test_an_answer_of_a_server_stays_a_text(text: str) -> None:
    assert parse_command_answer(text) == text
