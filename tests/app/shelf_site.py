"""A configuration, a shelf and a collector's status in a folder: what the pages need to run."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path

from streamlit.testing.v1 import AppTest

from core.snapshot import PulsarSnapshot
from core.snapshot.store import Shelf

APP = Path(__file__).parents[2] / "dashboard" / "app.py"
PAGES = ("fleet", "brokers", "broker", "bundles", "bundle", "unload", "lookup")


class Site:
    """What one dashboard looks at."""

    def __init__(
        self, folder: Path, *, clusters: Iterable[str] = ("fleet",), extra: str = ""
    ) -> None:
        self.state_dir = folder / "state"
        self.config = folder / "trimtab.toml"
        sections = "".join(
            f'[[clusters]]\nname = "{name}"\nzookeeper = "127.0.0.1:1"\nenvironment = "demo"\n'
            for name in clusters
        )
        self.config.write_text(f'state_dir = "{self.state_dir}"\n{extra}\n{sections}')

    def put(self, *snapshots: PulsarSnapshot) -> None:
        shelf = Shelf(self.state_dir / "snapshots")
        for snapshot in snapshots:
            shelf.put(snapshot)

    def collector_says(self, cluster: str, status: Mapping[str, object]) -> None:
        path = self.state_dir / "collectors" / f"{cluster}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(status))

    def open(self, page: str = "fleet", timeout: float = 60, **params: str | list[str]) -> AppTest:
        app = AppTest.from_file(str(APP), default_timeout=timeout)
        for key, value in params.items():
            app.query_params[key] = value
        app.run()
        if page == "fleet":  # the default page is drawn already
            return app
        app.switch_page(f"app_pages/{page}.py")
        return app.run()


def now() -> datetime:
    return datetime.now(UTC)


def texts(app: AppTest) -> str:
    """Everything that the page says, for looking up words."""
    parts = [
        element.value
        for kind in ("markdown", "caption", "title", "subheader")
        for element in app.get(kind)
    ]
    parts += [
        str(element.value) for kind in ("error", "warning", "info") for element in app.get(kind)
    ]
    parts += [element.value for element in app.code]
    return "\n".join(str(part) for part in parts).replace("\\", "")


def assert_calm(app: AppTest) -> None:
    """No exception, and no error of ours."""
    assert not app.exception, [item.message for item in app.exception]
    assert "error of ours" not in " ".join(str(item.proto) for item in app.error)
