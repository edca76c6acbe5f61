"""``trimtab completion``: the completion script of a shell."""

from __future__ import annotations

from typing import Annotated, Final

import typer
from typer.completion import get_completion_script  # type: ignore[attr-defined]  # Typer re-exports it

from core.errors import UnknownNameError
from dashboard.cli.options import COMPLETION_VARIABLE
from dashboard.cli.output import EXIT_DONE, UsageFaultError

SHELLS: Final = ("bash", "zsh", "fish")
_WHOLE_WORDS: Final = "COMP_WORDBREAKS=${COMP_WORDBREAKS//:}"
"""Bash splits words at colons, which names of brokers have."""

app = typer.Typer()


@app.command()
def completion(
    shell: Annotated[str, typer.Argument(metavar="SHELL", help="Shell: bash, zsh or fish.")],
) -> int:
    """Print the completion script of a shell.

    Tab then completes commands, options, and the names of clusters, brokers, nodes, bundles, runs
    and snapshots: from the configuration, the newest snapshot and the journal, never from a
    cluster. To keep it, add the line of the example to ~/.bashrc; `source <(trimtab completion
    zsh)` to ~/.zshrc, after compinit; `trimtab completion fish | source` to
    ~/.config/fish/config.fish.
    """
    if shell not in SHELLS:
        unknown = UnknownNameError.of("shell", shell, SHELLS)
        raise UsageFaultError(unknown.message, hint=unknown.hint)
    script = get_completion_script(
        prog_name="trimtab", complete_var=COMPLETION_VARIABLE, shell=shell
    )
    typer.echo(f"{_WHOLE_WORDS}\n{script}" if shell == "bash" else script)
    return EXIT_DONE
