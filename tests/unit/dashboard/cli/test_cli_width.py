"""Tables on a terminal of 80 columns: what the text around them speaks of stays."""

from __future__ import annotations

from datetime import UTC, datetime
from io import StringIO
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import patch

import pyarrow as pa
import pytest

from core.history.backtest.pulsar.system import PULSAR
from core.operations.drill.pulsar import Drill
from core.operations.drill.request import DrillRequest
from core.operations.drill.tables import FAILURES, GROUPS, HOT
from core.operations.sent import lines_of
from dashboard.cli import backtest, runs
from dashboard.cli.history import analysis
from dashboard.cli.operations import show
from dashboard.cli.output import print_line, table

BUNDLE = "acme/orders/0xc6000000_0xc8000000"
BROKERS = ("127.0.1.11:37603", "127.0.1.12:37603")


@pytest.fixture(autouse=True)
def width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


def test_a_drill_keeps_who_rises_most(capsys: pytest.CaptureFixture[str]) -> None:
    row = {
        "failure": BROKERS[0],
        "kind": "broker",
        "bundles": 213,
        "unassigned": 0,
        "clients": 3_210,
        "moved_bytes_per_s": 358e6,
        "newly_hot": 2,
        "pressed": BROKERS[1],
        "pressed_before": 0.026,
        "pressed_after": 0.574,
    }
    numbers = {
        "brokers": 1,
        "hot_brokers": 2,
        "groups_without_broker": 0,
        "groups_without_room": 0,
    }
    done = Drill(
        answer="One hurts.",
        hot_threshold=0.85,
        seed=1,
        failures=FAILURES.of([{**numbers, **row}]),
        hot=HOT.of([]),
        groups=GROUPS.of([]),
    )
    moment = datetime.fromtimestamp(0, UTC)
    show(lines_of(done, DrillRequest(), moment, moment))
    told = capsys.readouterr()
    for text in ("largest increase", "from", "to", BROKERS[1], "2.6%", "57.4%"):
        assert text in told.out
    assert "Hidden columns: clients, traffic." in told.err


def test_flaps_keep_how_long_and_by_whom(capsys: pytest.CaptureFixture[str]) -> None:
    row = {
        "cluster": "sandbox",
        "returned_at": 1_795_000_000_000,
        "subject": BUNDLE,
        "home": BROKERS[0],
        "away": BROKERS[1],
        "dwell_ms": 1_080_000,
        "returned_by": "cluster",
    }
    found: Any = SimpleNamespace(
        sentence="1 move.",
        flaps=pa.Table.from_pylist([row]),
        rounds=pa.table({"cluster": []}),
    )
    analysis._show_flaps(found)
    told = capsys.readouterr()
    for text in (BROKERS[0], "18 min", "cluster"):
        assert text in told.out
    assert f"\n{BUNDLE}\n" in told.out


def ranked(candidate: str, problem: str | None = None) -> dict[str, Any]:
    scores = {
        "deviation_p95": 0.886,
        "deviation_mean": 0.5,
        "minutes_over_ratio": 0.987,
        "unloads_per_day": 1_275.3,
        "ping_pongs_per_day": 12.0,
    }
    ends = {f"{name}_low": value * 0.95 for name, value in scores.items()}
    ends |= {f"{name}_high": value * 1.05 for name, value in scores.items()}
    known = scores | ends
    return {
        "candidate": candidate,
        "rank": 1,
        "is_pareto": True,
        "is_record": False,
        "placed_again": 0,
        "meets_target": True,
        "problem": problem,
    } | (known if problem is None else dict.fromkeys(known))


def test_a_ranking_keeps_unloads_and_the_target(capsys: pytest.CaptureFixture[str]) -> None:
    setting = "loadBalancerBrokerThresholdShedderPercentage"
    rows = [ranked(f"LeastResourceUsageWithWeight · {setting}={value}") for value in (5, 10)]
    late = ranked("AvgShedder", "The time was over before all windows were simulated.")
    record = {**ranked("as recorded"), "is_record": True, "placed_again": 235}
    backtest._show_ranking([*rows, late, record], PULSAR.nouns)
    told = capsys.readouterr()
    for text in ("deviation", "unloads/day", "target", "1,275 ±63.8", "Percentage=10", "yes"):
        assert text in told.out
    lost = (
        "Actual: 235 bundles were reassigned after the loss of their broker; these are no unloads."
    )
    assert lost in " ".join(told.out.split())
    assert "Not simulated: AvgShedder. The time was over" in told.out
    assert "Hidden columns: mean, minutes over 20%, ping-pongs/day." in " ".join(told.err.split())


@pytest.mark.parametrize(
    ("begin", "indent"),
    [
        ("ERROR   ", 8),
        ("WARNING ", 8),
        ("INFO    ", 8),
        ("12. ", 4),
        ("  - ", 4),
        ("   ", 3),
        ("Errors ", 0),
    ],
)
def test_lines_of_a_sentence_are_indented_to_its_first(monkeypatch, begin, indent) -> None:
    out = StringIO()
    monkeypatch.setattr(out, "isatty", lambda: True)
    monkeypatch.setattr("sys.stdout", out)
    print_line(f"{begin}127.0.1.1:8080 {'carries too much, ' * 9}and more.")
    first, *others = out.getvalue().splitlines()
    assert first.startswith(begin)
    assert len(others) > 1
    assert {len(one) - len(one.lstrip()) for one in others} == {indent}
    assert max(map(len, [first, *others])) <= 80


def test_a_bundle_stays_whole_on_a_line_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    columns = ("bundle", "from", "to", "traffic", "clients", "disruption")
    bundle = "initech/telemetry/0xdfffffc8_0xe5555571"
    table(columns, [(bundle, *BROKERS, "40.5 MB/s", "1,055", "83.8")])
    printed = capsys.readouterr()
    head, rest, name, row = printed.out.splitlines()
    assert (head, name) == ("bundle", bundle)
    assert rest.split() == ["from", "to", "traffic", "clients", "disruption"]
    assert row.split() == [*BROKERS, "40.5", "MB/s", "1,055", "83.8"]
    assert rest.startswith("  ")
    assert not printed.err
    table(columns[:3], [("t/n/0x0_0x1", "b1", "b2")])
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_the_list_of_runs_keeps_who_and_why(capsys: pytest.CaptureFixture[str]) -> None:
    run = "20261129-020435-abcdef"
    why = "the broker is too hot for the evening peak"
    view: Any = SimpleNamespace(
        run_id=run,
        requested_at=datetime(2026, 11, 29, 2, 4, 35, tzinfo=UTC),
        requested_by="root",
        cluster="sandbox",
        damage="",
        state="DONE",
        counts={"DONE": 1},
        steps=[None],
        undoes=None,
        reason=why,
    )
    with (
        patch.object(runs.services, "runs", return_value=[view]),
        patch.object(runs.services, "journal", return_value=SimpleNamespace(place="here")),
        patch.multiple(runs.run_answers, problems=lambda *_: [], summary=lambda _: {}),
    ):
        runs._list(cast("Any", None), None, 20, as_json=False)
    printed = capsys.readouterr()
    for text in (run, "2026-11-29 02:04", "root", "DONE"):
        assert text in printed.out
    assert "steps" in printed.err
