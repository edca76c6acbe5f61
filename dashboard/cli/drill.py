"""``trimtab drill``: failures of brokers and nodes; each system simulates and shows its own."""

from __future__ import annotations

import typer

from core.planning.drill.request import DrillRequest
from dashboard.cli.engine import is_spark
from dashboard.cli.options import Config, EngineName, Json, OutTables, Release, Settings, Source
from dashboard.cli.output import UsageFaultError
from dashboard.cli.parts import FIRST, PACKAGES, part
from dashboard.cli.requests import takes
from dashboard.cli.systems import kind_of

app = typer.Typer()


@app.command()
@takes(DrillRequest)
def drill(
    request: DrillRequest,
    source: Source,
    out: OutTables = None,
    settings: Settings = None,
    release: Release = None,
    engine: EngineName = "local",
    config: Config = None,
    as_json: Json = False,
) -> int:
    """Simulate the failure of each broker, domain or node.

    Show hot brokers and lost capacity after each.
    """
    on_spark = is_spark(engine)
    kind = kind_of(source, config) or FIRST  # its module reports what is missing
    of_system = part(kind, "drill")
    if of_system is None:
        raise UsageFaultError(
            f"{source} is a {kind} cluster: its failures cannot be simulated.",
            hint=f"Supported kinds: {', '.join(PACKAGES)}.",
        )
    code: int = of_system.drill(
        request, source, settings, release, out, config, on_spark=on_spark, as_json=as_json
    )
    return code
