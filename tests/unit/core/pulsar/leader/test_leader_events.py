"""Recordings of znode events: the form, and what a damaged one is refused with."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from places import FIXTURES

from core.errors import InputError
from core.pulsar.leader.events import RecordingWriter, ZnodeEvent, encode_event, read_recording

RECORDED = FIXTURES / "pulsar/leader"


@pytest.mark.parametrize("name", ["uniform", "threshold"])
def test_a_recorded_line_is_written_back_with_the_same_content(name: str) -> None:
    path = RECORDED / f"{name}.jsonl.gz"
    with gzip.open(path) as lines:
        recorded = [json.loads(line) for line in lines]
    assert [json.loads(encode_event(event)) for event in read_recording(path)] == recorded


@pytest.mark.parametrize("name", ["one.jsonl", "one.jsonl.gz"])
def test_a_recording_is_read_back_as_written(tmp_path: Path, name: str) -> None:
    events = [
        ZnodeEvent(kind="session", received_at_s=1.0, state="SyncConnected"),
        ZnodeEvent(kind="init", received_at_s=1.5, path="/admin/local-policies", result_code=-101),
        ZnodeEvent(
            kind="mod",
            received_at_s=2.5,
            read_at_s=2.6,
            path="/loadbalance/brokers/b:1",
            value="{}",
            version=3,
            mzxid=9,
            czxid=4,
            mtime_ms=2400,
            session_id=7,
        ),
        ZnodeEvent(kind="del", received_at_s=3.0, path="/namespace/a/b/0x00000000_0xffffffff"),
    ]
    with RecordingWriter(tmp_path / name) as out:
        for event in events:
            out.write(event)
    assert list(read_recording(tmp_path / name)) == events
    assert [event.at_s for event in events] == [1.0, 1.5, 2.4, 3.0]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b'{"k": "mod", "pa', "malformed"),
        (b'{"k": "mod", "te": "x", "path": "/a"}', "Expected `float`, got `str` - at `$.te`"),
        (b'{"te": 3.0, "path": "/a"}', "missing required field `k`"),
        (b'{"k": "mod", "te": 3.0}', "it has no path"),
        (b'"text"', "Expected `object`, got `str`"),
        (b"\xff\xfe", "malformed"),
    ],
)
def test_a_malformed_line_is_named(tmp_path: Path, line: bytes, why: str) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_bytes(b'{"te": 1.0, "k": "ready"}\n\n' + line + b"\n")
    with pytest.raises(InputError, match=f"Line 3 of recording {path} is malformed") as caught:
        list(read_recording(path))
    assert why in str(caught.value)


def test_a_cut_off_recording_is_named(tmp_path: Path) -> None:
    path = tmp_path / "cut.jsonl.gz"
    path.write_bytes((RECORDED / "threshold.jsonl.gz").read_bytes()[:5000])
    with pytest.raises(InputError, match="is damaged"):
        list(read_recording(path))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read: No such file"):
        list(read_recording(tmp_path / "none.jsonl"))


def test_a_recording_is_never_overwritten(tmp_path: Path) -> None:
    (tmp_path / "held.jsonl").write_text("mine")
    with pytest.raises(InputError, match="already exists"):
        RecordingWriter(tmp_path / "held.jsonl")
    assert (tmp_path / "held.jsonl").read_text() == "mine"
