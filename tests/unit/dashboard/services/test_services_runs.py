"""Asking for runs: what is refused at once, and what the pages see of the journal."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest
from journal_entries import RUN, begun, claimed, ended, plan_of, record_of, requested
from signed_requests import as_requested

from connectors.config.model import TrimtabConfig
from connectors.journal.journal import SqlJournal
from core.access import Identity
from core.actions.events import RunEnded
from core.actions.model import RunId, RunOptions
from core.errors import (
    GuardRefusedError,
    InputError,
    PlanConflictError,
    UnknownNameError,
    UnusablePlanError,
)
from core.plan.model import Diagnostic, Plan
from dashboard import services
from dashboard.services.access import local_identity
from dashboard.services.runbook import RunBook


@pytest.fixture
def config(tmp_path) -> TrimtabConfig:
    clusters = [
        {
            "name": "prod",
            "zookeeper": "z:1",
            "read_only": False,
            "apply": {"max_steps": 3, "pace_per_min": 6, "max_failures": 2},
        },
        {"name": "shut", "zookeeper": "z:1"},
    ]
    return TrimtabConfig.model_validate({"clusters": clusters, "state_dir": tmp_path})


def fresh_plan(steps: int = 1, **changes: object) -> Plan:
    moment = services.now()
    return plan_of(steps, created_at=moment, expires_at=moment + timedelta(minutes=5), **changes)


def ask(config: TrimtabConfig, plan: Plan, cluster: str = "prod", **changes: object) -> RunId:
    asked = {
        "reason": "too hot",
        "options": services.default_options(config, "prod"),
        "by": Identity(name="ann"),
    }
    return services.request_run(config, cluster, plan, **(asked | changes))  # type: ignore[arg-type]  # as named


def test_a_run_is_asked_for_and_seen(config) -> None:
    plan = fresh_plan(undoes=RUN)
    run_id = ask(config, plan, reason="  too\n hot ")
    view = services.run_view(config, run_id)
    assert view.state == "QUEUED"
    assert view.plan == plan
    assert view.reason == "too hot"
    assert view.requested_by == "ann"
    assert run_id.startswith(f"{view.requested_at:%Y%m%d-%H%M%S}-")
    assert view.undoes == RUN
    assert view.options == RunOptions(
        pace_per_min=6, max_failures=2, verify_within_s=30, is_gradual=True
    )
    assert [item.run_id for item in services.runs(config)] == [run_id]
    assert list(services.journal(config).open_runs("prod")) == [run_id]


ERROR = Diagnostic(severity="error", code="x", sentence="It is broken.", hint="Mend it.")


@pytest.mark.parametrize(
    ("plan", "cluster", "error", "words"),
    [
        (fresh_plan, "nowhere", UnknownNameError, "nowhere"),
        (lambda: fresh_plan(cluster="shut"), "shut", GuardRefusedError, "read-only"),
        (lambda: fresh_plan(cluster="other"), "prod", PlanConflictError, "made for other"),
        (lambda: plan_of(1), "prod", PlanConflictError, "2026-11-21 12:10:00 UTC"),
        (lambda: fresh_plan(4), "prod", GuardRefusedError, "4 steps; one run on prod may have 3"),
        (lambda: fresh_plan(0), "prod", UnusablePlanError, "has no steps"),
        (
            lambda: fresh_plan(applyable=False, errored=True, diagnostics=(ERROR,)),
            "prod",
            UnusablePlanError,
            "It is broken",
        ),
    ],
)
def test_a_plan_that_cannot_be_applied_is_refused_at_once(
    config, plan, cluster, error, words
) -> None:
    with pytest.raises(error, match=words) as caught:
        ask(config, plan(), cluster)
    assert caught.value.hint
    assert services.runs(config) == []


def test_a_changed_plan_is_refused(config) -> None:
    plan = fresh_plan()
    forged = type(plan)(
        **{name: getattr(plan, name) for name in plan.__slots__} | {"reason": "forged"}
    )
    with pytest.raises(UnusablePlanError, match="was changed after"):
        ask(config, forged)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"reason": "  "}, "needs a reason"),
        ({"reason": "x" * 3000}, "3000 characters"),
        ({"options": RunOptions(pace_per_min=7)}, "pace_per_min = 7"),
        ({"options": RunOptions(pace_per_min=0)}, "pace_per_min = 0"),
        ({"options": RunOptions(pace_per_min=6, max_failures=3)}, "max_failures = 3"),
        ({"options": RunOptions(pace_per_min=6, verify_within_s=0)}, "verify_within_s = 0"),
    ],
)
def test_a_request_beyond_the_limits_is_refused(config, changes, words) -> None:
    with pytest.raises(InputError, match=words):
        ask(config, fresh_plan(), **changes)
    assert services.runs(config) == []


def test_a_run_can_be_asked_to_stop_until_it_has_ended(config) -> None:
    run_id = ask(config, fresh_plan())
    services.ask_control(config, run_id, "stop", Identity(name="ben"), " enough ")
    view = services.run_view(config, run_id)
    assert view.control is not None
    assert (view.control.control, view.control.requested_by) == ("stop", "ben")
    assert view.control.reason == "enough"
    for event in (claimed(), ended(0, "SKIPPED"), RunEnded(state="STOPPED", sentence="x")):
        services.journal(config).append(as_requested(record_of(event, run_id=run_id)))
    with pytest.raises(PlanConflictError, match="already STOPPED"):
        services.ask_control(config, run_id, "pause", Identity(name="ben"))


def test_an_unknown_run_is_named(config) -> None:
    with pytest.raises(UnknownNameError, match="no-such"):
        services.run_view(config, "no-such")


def test_the_local_user_has_a_name() -> None:
    assert local_identity(is_page=True).name == f"dashboard/{local_identity().name}"


# -- the run book ----------------------------------------------------------------------------------


class Counting(SqlJournal):
    """A journal that counts the entries it hands out."""

    handed_out = 0

    def entries(self, **asked):
        found = super().entries(**asked)
        self.handed_out += len(found)
        return found


@pytest.fixture
def journal(tmp_path) -> Iterator[Counting]:
    made = Counting(f"sqlite:///{tmp_path / 'journal.db'}")
    yield made
    made.close()


def test_only_what_is_new_is_read(journal) -> None:
    book = RunBook(journal)
    for number in range(5):
        journal.append(record_of(requested(1), run_id=RunId(f"run-{number}")))
    assert len(book.views()) == 5
    read = journal.handed_out
    assert [view.state for view in book.views()] == ["QUEUED"] * 5
    assert journal.handed_out == read
    journal.append(record_of(claimed(), run_id=RunId("run-3")))
    assert [view.state for view in book.views()].count("RUNNING") == 1
    assert journal.handed_out == read + 1
    assert book.view(RunId("run-3")).state == "RUNNING"
    assert journal.handed_out == read + 1


def test_a_run_seen_alone_first_is_complete_in_the_list(journal) -> None:
    book = RunBook(journal)
    journal.append(record_of(requested(1)))
    assert book.view(RUN).state == "QUEUED"
    journal.append(record_of(claimed()))
    journal.append(record_of(begun(0)))
    assert book.views()[0].steps[0].state == "RUNNING"
    journal.append(record_of(ended(0)))
    assert book.view(RUN).steps[0].state == "DONE"


def test_the_list_is_bounded_and_by_cluster(journal) -> None:
    book = RunBook(journal)
    for number in range(4):
        cluster = "even" if number % 2 == 0 else "odd"
        journal.append(record_of(requested(1), run_id=RunId(f"run-{number}"), cluster=cluster))
    assert [view.run_id for view in book.views(limit=2)] == ["run-3", "run-2"]
    assert [view.run_id for view in book.views(cluster="even")] == ["run-2", "run-0"]
    journal.append(record_of(claimed(), run_id=RunId("run-0"), cluster="even"))
    assert book.views(cluster="even")[1].state == "RUNNING"


def test_a_damaged_run_says_so_and_takes_no_other_with_it(journal) -> None:
    book = RunBook(journal)
    journal.append(record_of(requested(1)))
    journal.append(record_of(begun(0)))
    journal.append(record_of(claimed()))
    journal.append(record_of(claimed(), run_id=RunId("headless")))
    journal.append(record_of(requested(1), run_id=RunId("sound")))
    sound, damaged = book.views()
    assert sound.damage == ""
    assert "Entry 2 " in damaged.damage
    assert damaged.state == "QUEUED"
    assert book.view(RUN).damage
    with pytest.raises(UnknownNameError):
        book.view(RunId("headless"))
