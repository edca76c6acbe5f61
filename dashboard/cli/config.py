"""The configuration that a command uses."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from typer._click.globals import get_current_context

from core.errors import ConfigError
from dashboard import services
from dashboard.cli.registry import CONNECTORS
from dashboard.cli.served import SERVED

if TYPE_CHECKING:
    from core.systems import KnownSystem

_CURRENT: Final = "trimtab.configuration"
_ELSEWHERE: Final = ("TRIMTAB_JOURNAL_URL", "TRIMTAB_STATE_DIR")


def read_config(given: Path | None) -> services.Config:
    """Read the configuration with the connectors of this command line.

    Args:
        given: What ``--config`` says; ``None``: what the environment or the folder names.
    Raises:
        ConfigError: It cannot be read or is contradictory.
    """
    if (here := SERVED.get()) is not None:
        return here.config
    config = services.load_config(services.config_path(given), CONNECTORS.get())
    _of_command()[_CURRENT] = config
    services.SHELL_CONFIG.set(os.environ.get(services.CONFIG_ENV, ""))
    return config


def current_config() -> services.Config:
    """Return the configuration that the command has read, or the one that it would read.

    Raises:
        ConfigError: It cannot be read or is contradictory.
    """
    here = SERVED.get()
    return here.config if here is not None else _of_command().get(_CURRENT) or read_config(None)


def _of_command() -> dict[str, Any]:
    """Return what is stored for the running command."""
    context = get_current_context(silent=True)
    return {} if context is None else context.find_root().meta


def systems() -> tuple[KnownSystem, ...]:
    """Return the systems of this command line."""
    from core.systems import SYSTEMS  # noqa: PLC0415  # commands must start fast

    return tuple(one.system for one in CONNECTORS.get()) or SYSTEMS


def configured(given: Path | None) -> services.Config:
    """Read the configuration of a command that works on its clusters.

    Raises:
        ConfigError: It cannot be read, or names no cluster.
    """
    path = services.config_path(given)
    config = read_config(path)
    must_name_clusters(config, path)
    return config


def configured_journal(given: Path | None) -> services.Config:
    """Read the configuration of a command that works on the journal, which outlives clusters.

    Raises:
        ConfigError: It cannot be read, or nothing says where the journal is.
    """
    path = services.config_path(given)
    config = read_config(path)
    if (
        SERVED.get() is None
        and path is None
        and not any(os.environ.get(name) for name in _ELSEWHERE)
    ):
        must_name_clusters(config, path)
    return config


def must_name_clusters(config: services.Config, path: Path | None) -> None:
    """Check that there is a cluster to work on.

    Raises:
        ConfigError: There is none; the message says how to name a configuration.
    """
    if config.clusters:
        return
    if path is not None:
        raise ConfigError(
            f"{path} has no cluster.",
            hint='Add one: [[clusters]], name = "prod-eu", zookeeper = "zk1:2181" (README: One '
            "command, read-only, on your cluster).",
        )
    raise ConfigError(
        f"No configuration: --config and {services.CONFIG_ENV} are not set, and the current "
        f"directory has no {services.DEFAULT_NAME}.",
        hint="Pass --config FILE. To create one, see README: One command, read-only, on your "
        "cluster. Or run `trimtab demo` and use the file that it prints.",
    )


def config_words(given: Path | None) -> str:
    """Return the option that a copied command needs: `` --config FILE``, or nothing.

    Args:
        given: What ``--config`` says. A file that the environment or the folder names is that of
            the next command, too.
    """
    if given is None or services.config_path(given) == services.config_path(None):
        return ""
    return f" --config {shlex.quote(str(given))}"
