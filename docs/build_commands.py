"""Write docs/reference/commands.md from the ``trimtab`` command itself.

    make docs                                # or: python docs/build_commands.py

A test compares the file with :func:`reference`, so a changed option cannot leave the page behind.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import typer  # noqa: E402  # the checkout comes first on the path

from dashboard.cli.commands import COMMANDS  # noqa: E402  # the same
from dashboard.cli.main import app  # noqa: E402  # the checkout comes first on the path
from dashboard.cli.registry import type_name  # noqa: E402  # the same

PAGE: Final = ROOT / "docs" / "reference" / "commands.md"
HEAD: Final = """\
# Commands

Generated from the program by `make docs`; edit the help texts, not this page.
What the commands print as JSON: [json.md](json.md).
Tasks step by step: [guides](../guides/README.md).

- `SNAPSHOT` is a directory that `trimtab capture`, `import-zk` or `history snapshot` wrote.
- The configuration is `--config FILE`, else `TRIMTAB_CONFIG`, else `./trimtab.toml`.
- Only `apply`, `undo` and `pegasus ... --apply` change a cluster, and only one with
  `read_only = false`.
- Tables fit the terminal, or COLUMNS: long names are shortened and columns omitted. `--wide` shows
  all of them, `--json` every value.
- `eval "$(trimtab completion bash)"` lets Tab complete commands, options and names; zsh and fish:
  [`trimtab completion`](#trimtab-completion).
- `TRIMTAB_DEBUG=1` prints the traceback of an internal error.

| exit code | meaning |
| --- | --- |
| 0 | done; findings and "nothing to do" are done |
| 1 | refused or failed |
| 2 | bad usage |
| 3 | answered, but incomplete: what could not be read, or is damaged, is named on standard error |
| 130 | stopped with Ctrl-C before it was done; services (`demo`, `collect` ...) end with 0 |
"""
_EXTRA: Final = re.compile(r"\s*\[((?:default: |required|[^\[\]]*<=?x|x>=?).*)\]$")
_DEFAULT: Final = re.compile(r"default: (.*)", re.DOTALL)


def reference() -> str:
    """Return the text of the page."""
    leaves = dict(_leaves(typer.main.get_command(app), ()))
    parts = [HEAD]
    for heading, entries in COMMANDS.items():
        rows = [
            f"| [`trimtab {' '.join(words)}`](#{_anchor(words)}) | {_cell(_summary(command))} |"
            for words, command in leaves.items()
            if words[0] in entries
        ]
        parts.append(
            f"**{heading}**\n\n| command | task |\n| --- | --- |\n" + "\n".join(rows) + "\n"
        )
    parts += [_section(words, command) for words, command in leaves.items()]
    return "\n".join(parts)


def _leaves(command: Any, words: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield every command with its words, in the order of ``--help``."""
    children = getattr(command, "commands", None)
    if children is None:
        yield words, command
        return
    for name in children:
        yield from _leaves(children[name], (*words, name))


def _section(words: tuple[str, ...], command: Any) -> str:
    context = command.context_class(command, info_name=f"trimtab {' '.join(words)}")
    arguments, options = [], []
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is None or "--help" in parameter.opts:
            continue
        is_option = parameter.opts[0].startswith("-")
        (options if is_option else arguments).append(_row(parameter, *record))
    usage = " ".join(command.get_usage(context).removeprefix("Usage: ").split())
    example = command.epilog.partition("Example:\n")[2].partition("\n")[0].strip()
    text = f"## trimtab {' '.join(words)}\n\n{_paragraphs(command)}\n\n```\n{usage}\n```\n"
    text += f"\nExample:\n\n```\n{example}\n```\n"
    if arguments:
        text += "\n| argument | type | default | meaning |\n| --- | --- | --- | --- |\n"
        text += "\n".join(arguments) + "\n"
    if options:
        text += "\n| option | type | default | meaning |\n| --- | --- | --- | --- |\n"
        text += "\n".join(options) + "\n"
    return text


def _row(parameter: Any, spelled: str, meaning: str) -> str:
    """Return the table row; ``spelled`` and ``meaning`` are the two columns of ``--help``."""
    meaning, default, limits = _without_extras(meaning)
    if parameter.opts[0].startswith("-"):
        spellings = (*parameter.opts, *parameter.secondary_opts)
        names = " / ".join(f"`{name}`" for name in spellings)
        shown = parameter.metavar or type_name(parameter) or "flag"
    else:
        names, shown = f"`{_cell(spelled)}`", type_name(parameter)
    if limits:
        shown += f", {limits.replace('<=x<=', ' to ').replace('x>=', 'min ')}"
    if getattr(parameter, "multiple", False) or parameter.nargs == -1:
        shown += ", repeatable"
    return f"| {names} | {_cell(shown)} | {_cell(default)} | {_cell(meaning)} |"


def _without_extras(meaning: str) -> tuple[str, str, str]:
    """Split ``meaning [default: 1; 1<=x<=9]`` into meaning, default and limits."""
    found = _EXTRA.search(meaning)
    if not found:
        return meaning, "", ""
    default, limits = "", ""
    for extra in found[1].split("; "):
        if named := _DEFAULT.match(extra):
            default = named[1]
        elif extra == "required":
            default = "required"
        else:
            limits = extra
    return meaning[: found.start()], default, limits


def _paragraphs(command: Any) -> str:
    paragraphs = (command.help or "").split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def _summary(command: Any) -> str:
    return _paragraphs(command).split("\n\n")[0]


def _anchor(words: tuple[str, ...]) -> str:
    return f"trimtab-{'-'.join(words)}"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", r"\|")


if __name__ == "__main__":
    PAGE.write_text(reference(), encoding="utf-8")
