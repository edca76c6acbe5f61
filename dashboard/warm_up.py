"""Work of a server right after its start, so that no visitor waits for it."""

from __future__ import annotations

import contextlib
import gc
import inspect
import os
import pkgutil
import threading
from importlib import import_module
from pathlib import Path
from typing import Final

from core.errors import OpsError
from dashboard import services
from dashboard.systems import SYSTEMS, page_part

_FIRST_PAGE: Final = (
    "dashboard.components.frame",
    *(entry.pages["fleet"].partition(":")[0] for entry in SYSTEMS.values()),
    "streamlit.emojis",
    "PIL.Image",
)
"""What the first page imports, with all that is heavy under it."""

_LATER: Final = ("scipy.optimize", "scipy.sparse")
"""What computations import when they are used first; a page would wait a second for it."""

_SCRIPT: Final = "page"
"""Name of the modules that are scripts: importing one would draw it."""

_LOOK_S: Final = 0.1
_LOOKS: Final = 1200
_COLLECT_EVERY_S: Final = 20.0


def start() -> None:
    """Warm up in a thread, and collect garbage in it from then on."""
    threading.Thread(target=_run, name="warm-up", daemon=True).start()


def _run() -> None:
    _await_configuration()
    for name in _FIRST_PAGE:
        import_module(name)
    _open_journal()
    inspect.stack()  # the first call goes through every module; Streamlit makes one, once
    freeze()
    for name in pages():
        import_module(name)
    _draw_figures()
    for name in _LATER:
        import_module(name)
    inspect.stack()  # through the modules of the pages, too
    freeze()
    look_at_clusters()
    tick = threading.Event()
    while not tick.wait(_COLLECT_EVERY_S):
        gc.collect()
        services.give_memory_back()


def _await_configuration() -> None:
    """Wait for the configuration: a demo writes it when its clusters run, and leave processors."""
    path, tick = os.environ.get(services.CONFIG_ENV), threading.Event()
    for _ in range(_LOOKS):
        if not path or Path(path).is_file():
            return
        tick.wait(_LOOK_S)


def _open_journal() -> None:
    """Read the configuration and open the journal, with all that they import."""
    with contextlib.suppress(OpsError):  # the first page says why
        services.journal(services.page_config())


def look_at_clusters() -> None:
    """Compute the first page of every cluster: seconds on a huge fleet."""
    from dashboard.components.frame import saved_by_cluster  # noqa: PLC0415  # it is heavy

    with contextlib.suppress(OpsError):  # the first page says why
        config = services.page_config()
        saved = saved_by_cluster(config)
        for cluster in config.clusters:
            held = saved[cluster.name]
            if held.latest is not None:
                with contextlib.suppress(OpsError):  # the page of the cluster says why
                    page_part(cluster.kind, "fleet").row(config, cluster, held, held.latest)


def pages() -> list[str]:
    """Return the modules of every page, without the scripts."""
    folder = Path(__file__).with_name("app_pages")
    found = pkgutil.walk_packages([str(folder)], "dashboard.app_pages.")
    return [one.name for one in found if one.name.rpartition(".")[2] != _SCRIPT]


def _draw_figures() -> None:
    """Draw a figure of every sort: plotly imports each part when it is used first."""
    import plotly.graph_objects as go  # noqa: PLC0415  # after what the first page needs
    from plotly.subplots import make_subplots  # noqa: PLC0415  # the same

    from dashboard.charts.template import styled  # noqa: PLC0415  # the same

    figure = make_subplots(rows=1, cols=2)
    for trace in (
        go.Heatmap(z=[[1.0]], coloraxis="coloraxis", colorbar={"len": 1}),
        go.Bar(x=[1], y=[1], marker={"color": ["red"], "line": {"width": 0}}),
        go.Scatter(x=[1], y=[1], line={"width": 1}, marker={"size": 1}),
        go.Scattergl(x=[1], y=[1], line={"width": 1}, marker={"size": 1}),
    ):
        figure.add_trace(trace, row=1, col=1)
    figure.add_hline(y=1, annotation={"text": "1"}, row=1, col=1)
    figure.add_vrect(x0=0, x1=1, row=1, col=1)
    figure.add_vline(x=1, row=1, col=1)
    figure.update_layout(coloraxis={"colorbar": {"len": 1}}, uniformtext={"minsize": 8})
    styled(figure, height=100).to_json()
    for other in (
        go.Treemap(labels=["a"], parents=[""]),
        go.Barpolar(r=[1]),
        go.Scatterpolar(r=[1]),
    ):
        styled(go.Figure(other), height=100).to_json()


def freeze() -> None:
    """Exclude the current objects from garbage collection: they are code, never garbage.

    Looking through all of it took longer than most pages do.
    """
    gc.collect()
    gc.freeze()
