"""What every page says: headings, labels, hints, column names, and sentences with numbers masked.

``tests/app/wording/<page>.txt`` holds the texts of each page, ``tests/app/frames/<page>.txt`` the
tables and downloads behind it. After a wanted change write them again with
``python tests/frozen/answers.py freeze pages`` and read the difference: nothing else in the tests
asks for a sentence of a page.
"""

from __future__ import annotations

import getpass
import json
import re
import secrets
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import job_stories
import pytest
import time_machine
from fleet_builder import make_history
from frozen_texts import assert_frozen_by_test, names_in
from history_rows import recorded, store_in
from page_frames import recording
from pegasus_snapshots import snapshot_of, whole
from run_stories import RUN, Story
from snapshot_site import Site, assert_calm
from streamlit.testing.v1 import AppTest

from core.diagnosis import request
from core.pulsar.settings import SETTING_BY_KEY
from dashboard.app_pages.activity.model import TABS as ACTIVITY_TABS
from dashboard.app_pages.history.model import TABS as HISTORY_TABS
from dashboard.app_pages.pegasus.cluster.model import TABS as PEGASUS_TABS
from dashboard.app_pages.pegasus.tables.model import TABS as TABLES_TABS
from dashboard.app_pages.pulsar.broker.model import TABS as BROKER_TABS
from dashboard.app_pages.pulsar.ownership.model import VIEWS as OWNERSHIP_TABS
from dashboard.app_pages.pulsar.settings.model import TABS as SETTINGS_TABS
from dashboard.app_pages.run.view import TABS as RUN_TABS
from dashboard.components.pulsar.changes_box import describe
from dashboard.queries.pulsar import explanations
from dashboard.sitemap import FILES
from dashboard.state import SET

FOLDER = Path(__file__).parent / "wording"
FRAMES = Path(__file__).parent / "frames"
RENEW = "python tests/frozen/answers.py freeze pages"
NOON = datetime(2026, 11, 24, 12, tzinfo=UTC)
VIEWS: dict[str, tuple[str, ...]] = {
    "activity": ACTIVITY_TABS,
    "history": HISTORY_TABS,
    "rebalance": ("Plan", "Compare", "Why", "Cost"),
    "broker": BROKER_TABS,
    "settings": SETTINGS_TABS,
    "ownership": OWNERSHIP_TABS,
    "policies": ("Namespaces", "Rates", "Groups", "Quotas", "Tenants", "Calculator"),
    "isolation": ("Policies", "Groups", "Domains", "Edit policy"),
    "brokers": ("Brokers", "Resources", "Findings", "Over time"),
    "bundle": ("Load", "Shedding decision", "Automatic split", "Topics", "Events"),
    "run": RUN_TABS,
    "pegasus": PEGASUS_TABS,
    "pegasus_tables": TABLES_TABS,
}
"""Tabs of pages that draw only the one that is open."""

RESULTS: dict[str, tuple[str, ...]] = {
    "backtest": ("Ranking", "Over time", "Earlier back-tests"),
    "jobs": ("",),
}
"""Pages that show a finished job, with their tabs."""

TAB_PARAMETERS = {"pegasus": "tab", "pegasus_tables": "tab"}
"""Parameter that names the tab, where it is not ``view``."""

_TEXTS = ("label", "body", "text", "help", "placeholder", "caption", "options")
_NUMBERS = re.compile(r"[+\-\u2212]?\d[\d.,:]*")
_UNITS = re.compile(r"# ?(?:[kMGT]?B/s|[kM]?\s?msg/s|[kMGT]i?B|ms|s|min|h|d|%)(?![a-z])")
_NAMES = re.compile(
    re.escape(tempfile.gettempdir()) + r"/[^\s`'\"]+"  # files
    r"|[\w.-]+/[\w.-]+/0x[0-9a-f]+_0x[0-9a-f]+"  # bundles
    r"|\b[0-9a-f]{8,}\b"  # identifiers of plans and snapshots
)
_CATALOGUE = frozenset(map(describe, SETTING_BY_KEY))
"""Every setting with its meaning, as the box of changes lists them: texts of the catalogue."""

_BUSY = ":material/hourglass_top:"


def params_of(page: str, bundle: str, broker: str) -> dict[str, Any]:
    """Return the address with which a page has something to show."""
    return {
        "broker": {"broker": broker},
        "bundle": {"bundle": bundle},
        "unload": {"bundles": [bundle]},
        "run": {"run": RUN},
        "lookup": {"topic": f"persistent://{bundle.rpartition('/')[0]}/topic-1"},
    }.get(page, {})


def written(app: AppTest) -> list[str]:
    """Return the texts of a page from top to bottom, each once, numbers as ``#``."""
    found = dict.fromkeys(_masked(text) for text in _walk(app._tree) if text.strip())
    return [text for text in found if not text.startswith((".stApp", ".st-key-", "<style"))]


def _walk(node: Any) -> Iterator[str]:
    yield from _own(node)
    for child in getattr(node, "children", {}).values():
        if getattr(child, "type", "") != "sidebar":  # names the user of the machine
            yield from _walk(child)


def _own(node: Any) -> Iterator[str]:
    proto = getattr(node, "proto", None)
    for part in (proto, getattr(proto, "expandable", None), getattr(proto, "tab", None)):
        for name in _TEXTS:
            value = getattr(part, name, "")
            texts = [value] if isinstance(value, str) else [str(one) for one in value or ()]
            is_box = getattr(part, "id", "").endswith(f"-{SET}")
            yield from (one for one in texts if not is_box or one not in _CATALOGUE)
    columns = getattr(proto, "columns", "")
    if isinstance(columns, str) and columns:
        for one in json.loads(columns).values():
            yield " | ".join(str(one[key]) for key in ("label", "help") if one.get(key))


def _masked(text: str) -> str:
    plain = re.sub(r"<[^>]+>", " ", text).replace("\u2060", "").replace("\\", "")
    plain = _NAMES.sub("NAME", plain)
    plain = _UNITS.sub("#", _NUMBERS.sub("#", plain))
    return " ".join(plain.split())


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> tuple[Site, str, str]:
    """A Pulsar and a Pegasus cluster, collected a few times up to noon."""
    made = Site(tmp_path_factory.mktemp("wording"), pegasus=("peg",))
    history = make_history(4, brokers=4, bundles=60, now=NOON - timedelta(seconds=5))
    made.put(*history, snapshot_of(whole(), taken_at=NOON - timedelta(seconds=5)))
    recorded(store_in(made.state_dir), history)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRIMTAB_CONFIG", str(made.config))
        Story(made, history[-1], began=NOON - timedelta(minutes=2)).failed()
    bundles, brokers = history[-1].bundles, history[-1].brokers
    return made, bundles["bundle"][0].as_py(), brokers["broker"][0].as_py()


@pytest.mark.parametrize("page", sorted(FILES))
def test_a_page_says_what_it_said(
    page: str, site: tuple[Site, str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    made, bundle, broker = site
    limits = (explanations, "_POINTS_S"), (explanations, "_PAIR_S"), (request, "DEFAULT_SECONDS")
    for place in limits:
        monkeypatch.setattr(*place, 240.0)  # what a page says is not to depend on the machine
    monkeypatch.setenv("TRIMTAB_CONFIG", str(made.config))
    monkeypatch.setattr(getpass, "getuser", lambda: "ops")
    frames, parts, behind = recording(monkeypatch), [], []
    for view in VIEWS.get(page, ("",)):
        with time_machine.travel(NOON, tick=False):
            app = made.open(
                page,
                **params_of(page, bundle, broker),
                **({TAB_PARAMETERS.get(page, "view"): view} if view else {}),
            )
            for _ in range(600):  # what is computed in the background comes with a later run
                if not any(_BUSY in text for text in written(app)):
                    break
                app.run()
        assert_calm(app)
        parts += [*([f"## {view}"] if view else []), *written(app)]
        behind += [*([f"## {view}\n"] if view else []), frames.text()]
    assert_frozen_by_test(
        {FOLDER: "\n".join(parts) + "\n", FRAMES: "\n".join(behind)}, f"{page}.txt", RENEW
    )


@pytest.mark.parametrize(("page", "views"), RESULTS.items())
def test_tables_of_results_are_as_they_were(
    page: str, views: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Site(tmp_path)
    monkeypatch.setenv("TRIMTAB_CONFIG", str(made.config))
    monkeypatch.setattr(secrets, "token_hex", lambda count=16: "0" * 2 * count)
    frames, behind = recording(monkeypatch), []
    with time_machine.travel(NOON, tick=False):
        job_id = job_stories.backtest(made.state_dir)
        for view in views:
            app = made.open(page, job=job_id, **({"view": view} if view else {}))
            assert_calm(app)
            behind += [*([f"## {view}\n"] if view else []), frames.text()]
    assert_frozen_by_test({FRAMES: "\n".join(behind)}, f"{page}-result.txt", RENEW)


def test_no_wording_is_kept_of_a_page_that_is_gone() -> None:
    expected = {f"{name}.txt" for name in FILES}
    assert names_in(FOLDER) == expected
    assert names_in(FRAMES) == expected | {f"{page}-result.txt" for page in RESULTS}
