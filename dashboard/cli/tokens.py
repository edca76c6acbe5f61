"""``trimtab tokens``: API tokens, with which the command line and scrapers sign in."""

from __future__ import annotations

from typing import Annotated

import typer

from dashboard import services
from dashboard.cli.config import read_config
from dashboard.cli.options import Config, Json
from dashboard.cli.output import EXIT_DONE, Answer, emit, note, print_line, table
from dashboard.cli.users import Groups
from dashboard.services import access
from trimtab.token import TOKEN_ENV, TOKEN_FILE_ENV

app = typer.Typer()


@app.command("list")
def list_tokens(config_file: Config = None, as_json: Json = False) -> int:
    """List the API tokens, without secrets."""
    config = read_config(config_file)
    tokens, now = access.user_file(config).tokens(), services.now()

    def show() -> None:
        rows = [
            (
                key,
                one.person,
                ", ".join(one.groups),
                f"{one.created_at:%Y-%m-%d}",
                f"{one.expires_at:%Y-%m-%d}" + (" (over)" if one.expires_at <= now else ""),
            )
            for key, one in tokens.items()
        ]
        if rows:
            table(("id", "person", "groups", "created", "expires"), rows)
        else:
            print_line("No tokens. Create one with `trimtab tokens create NAME`.")

    body = {
        "tokens": [
            {
                "id": key,
                "person": one.person,
                "groups": list(one.groups),
                "created_at": one.created_at.isoformat(),
                "expires_at": one.expires_at.isoformat(),
            }
            for key, one in tokens.items()
        ]
    }
    return emit(Answer(body, show), as_json=as_json)


@app.command("create")
def create_token(
    person: Annotated[str, typer.Argument(metavar="NAME", help="Name of the person.")],
    groups: Groups = None,
    days: Annotated[float, typer.Option(help="Days until it expires, at most 366.")] = 90.0,
    config_file: Config = None,
) -> int:
    """Create an API token and print it once.

    Users of the user file keep the groups of that file.
    """
    config = read_config(config_file)
    key, text = access.user_file(config).add_token(
        person, tuple(groups or ()), days, services.now()
    )
    print_line(text)
    note(
        f"Token {key} is valid for {person} for {days:g} days. It is shown only once. Set it as "
        f"{TOKEN_ENV}, or save it in the file set as {TOKEN_FILE_ENV}."
    )
    return EXIT_DONE


@app.command("revoke")
def revoke_token(
    token: Annotated[str, typer.Argument(metavar="ID", help="Id from `trimtab tokens list`.")],
    config_file: Config = None,
) -> int:
    """Revoke an API token."""
    config = read_config(config_file)
    access.user_file(config).remove_token(token)
    note(f"Token {token} is revoked.")
    return EXIT_DONE
