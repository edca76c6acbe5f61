"""``trimtab metrics``: what ``/metrics`` of the pages serves, once."""

from __future__ import annotations

import sys

import typer

from dashboard.cli.config import configured
from dashboard.cli.options import Config
from dashboard.cli.output import EXIT_DONE

app = typer.Typer()


@app.command()
def metrics(config_file: Config = None) -> int:
    """Print Prometheus metrics of Trimtab and its clusters.

    The pages serve the same at /metrics. No cluster is contacted.
    """
    from dashboard.services.metrics import metrics_text  # noqa: PLC0415  # heavy: not at start

    sys.stdout.write(metrics_text(configured(config_file)).decode("utf-8"))
    return EXIT_DONE
