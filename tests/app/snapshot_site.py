"""A configuration, snapshots and a collector's status in a folder: what the pages need to run."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar

from streamlit import config
from streamlit.runtime.pages_manager import PagesManager
from streamlit.testing.v1 import AppTest, app_test

from core.snapshot.store import SnapshotStore, Storable
from dashboard import state
from dashboard.sitemap import FILES

APP = Path(__file__).parents[2] / "dashboard" / "app.py"
# AppTest does not read the configuration next to the script, as a server does
config._main_script_path = str(APP)
config.get_config_options(force_reparse=True)
PAGES = (
    "fleet",
    "brokers",
    "broker",
    "bundles",
    "bundle",
    "unload",
    "lookup",
    "splits",
    "advisors",
    "settings",
    "ownership",
    "isolation",
    "policies",
    "rebalance",
)
PEGASUS_PAGES = ("pegasus", "pegasus_tables", "pegasus_balance", "pegasus_maintenance")


class RememberingPages(PagesManager):
    """AppTest forgets the pages between two runs, a server does not: callbacks switch pages."""

    known: ClassVar[dict[str, dict[str, Any]]] = {}

    def __init__(self, main_script_path: str, *args: Any, **options: Any) -> None:
        super().__init__(main_script_path, *args, **options)
        if main_script_path in self.known:
            self._set_pages(self.known[main_script_path])

    def set_pages_and_resolve(self, pages: dict[str, Any], *args: Any, **options: Any) -> Any:
        self.known[str(self.main_script_path)] = pages
        return super().set_pages_and_resolve(pages, *args, **options)


app_test.PagesManager = RememberingPages


class Site:
    """What one dashboard looks at."""

    def __init__(
        self,
        folder: Path,
        *,
        clusters: Iterable[str] = ("fleet",),
        pegasus: Iterable[str] = (),
        extra: str = "",
        each: str = "",
    ) -> None:
        """``clusters``: of Pulsar; ``extra``: lines for the whole; ``each``: for every cluster."""
        self.state_dir = folder / "state"
        self.config = folder / "trimtab.toml"
        sections = "".join(
            f'[[clusters]]\nname = "{name}"\nzookeeper = "127.0.0.1:1"\n'
            f'environment = "demo"\n{each}\n'
            for name in clusters
        )
        sections += "".join(
            f'[[clusters]]\nname = "{name}"\nkind = "pegasus"\nmeta_servers = ["127.0.0.1:1"]\n'
            f'environment = "demo"\n{each}\n'
            for name in pegasus
        )
        self.config.write_text(f'state_dir = "{self.state_dir}"\n{extra}\n{sections}')

    def put(self, *snapshots: Storable) -> None:
        snapshot_store = SnapshotStore(self.state_dir / "snapshots")
        for snapshot in snapshots:
            snapshot_store.put(snapshot)

    def collector_says(self, cluster: str, status: Mapping[str, object]) -> None:
        path = self.state_dir / "collectors" / f"{cluster}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(status))

    def worker_says(self, cluster: str = "fleet", *, silent_s: float = 0.0) -> None:
        path = self.state_dir / "workers" / f"{cluster}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        seen = now() - timedelta(seconds=silent_s)
        said = {"worker": "worker-1", "last_seen_at": seen.isoformat(), "doing": "Waiting."}
        status = {"cluster": cluster, **said}
        path.write_text(json.dumps(status))

    def open(self, page: str = "fleet", timeout: float = 60, **params: str | list[str]) -> AppTest:
        app = AppTest.from_file(str(APP), default_timeout=timeout)
        is_first = page == "fleet"
        for key, value in params.items():
            if is_first or key in state.SHARED:
                app.query_params[key] = value
        app.run()
        if is_first:  # the default page is drawn already
            return app
        for key, value in params.items():  # now: those of a page are forgotten with it
            app.query_params[key] = value
        app.switch_page(FILES[page])
        app.run()
        app._page_hash = ""  # from here on it stays where its own buttons lead
        return app


def now() -> datetime:
    return datetime.now(UTC)


def texts(app: AppTest) -> str:
    """Everything that the page says as a person sees it, for looking up words."""
    parts = [
        element.value
        for kind in ("markdown", "caption", "title", "header")
        for element in app.get(kind)
    ]
    parts += [
        str(element.value) for kind in ("error", "warning", "info") for element in app.get(kind)
    ]
    parts += [element.value for element in app.code]
    parts += [frame.to_csv() for frame in (table.value for table in app.dataframe)]
    return "\n".join(str(part) for part in parts).replace("\\", "").replace("\u2060", "")


def assert_calm(app: AppTest) -> None:
    """No exception, and no error of ours."""
    assert not app.exception, [item.message for item in app.exception]
    assert "Internal error" not in " ".join(str(item.proto) for item in app.error)
