"""``trimtab users`` and ``trimtab whoami``: who signs in with a password, and who I am."""

from __future__ import annotations

import getpass
import sys
from typing import Annotated

import typer

from core.access import describe_scopes
from core.errors import InputError
from core.units import pluralize
from dashboard.cli.config import read_config
from dashboard.cli.options import Config, Json
from dashboard.cli.output import EXIT_DONE, Answer, emit, note, print_line, table
from dashboard.cli.progress import STATUS
from dashboard.services import access
from trimtab.token import TOKEN_ENV

app = typer.Typer()

Person = Annotated[str, typer.Argument(metavar="NAME", help="User name.")]
Groups = Annotated[
    list[str] | None, typer.Option("--group", metavar="GROUP", help="Group; may be repeated.")
]


@app.command("list")
def list_users(config_file: Config = None, as_json: Json = False) -> int:
    """List the users with a password."""
    config = read_config(config_file)
    users = access.user_file(config).users()

    def show() -> None:
        if not users:
            print_line(f"{config.users_file} has no users. Add one with `trimtab users add NAME`.")
            return
        table(("name", "groups"), [(name, ", ".join(one.groups)) for name, one in users.items()])

    body = {"users": [{"name": name, "groups": list(one.groups)} for name, one in users.items()]}
    return emit(Answer(body, show), as_json=as_json)


@app.command("add")
def add_user(name: Person, groups: Groups = None, config_file: Config = None) -> int:
    """Add a user, or set a new password.

    The password is read from the terminal, or from standard input. A new password ends the user's
    sessions.
    """
    config = read_config(config_file)
    access.user_file(config).set_user(name, _password(), None if groups is None else tuple(groups))
    note(f"{name} can sign in; the password hash is in {config.users_file}.")
    if config.access.sign_in != "users":
        note('To require sign-in, set sign_in = "users" under [access] in trimtab.toml.')
    return EXIT_DONE


def _password() -> str:
    if not sys.stdin.isatty():
        line = sys.stdin.readline()
        if not line:
            raise InputError(
                "The password is empty.", hint="Type it, or pipe it to standard input."
            )
        return line.rstrip("\r\n")
    STATUS.stop()  # nothing may be written into what is typed
    first = getpass.getpass("Password: ")
    if getpass.getpass("Repeat password: ") != first:
        raise InputError("The two passwords differ.", hint="Try again.")
    return first


@app.command("remove")
def remove_user(name: Person, config_file: Config = None) -> int:
    """Remove a user with all sessions and API tokens."""
    config = read_config(config_file)
    tokens = access.user_file(config).remove_user(name)
    note(f"{name} is removed, with {pluralize(tokens, 'API token')}.")
    return EXIT_DONE


@app.command("whoami")
def whoami(config_file: Config = None, as_json: Json = False) -> int:
    """Show your identity and your role on each cluster."""
    config = read_config(config_file)
    who, rules = access.command_identity(config), config.access.rules()
    roles = {cluster.name: rules.role_of(who, cluster.name) for cluster in config.clusters}
    scopes = {cluster.name: rules.limited_roles(who, cluster.name) for cluster in config.clusters}

    def show() -> None:
        groups = f" (groups: {', '.join(who.groups)})" if who.groups else ""
        print_line(f"{who.name}{groups}, identified by {_SOURCES[who.source]}.")
        table(
            ("cluster", "role", "role in a scope"),
            [
                (name, role or "none", describe_scopes(scopes[name]) or "none")
                for name, role in roles.items()
            ],
        )
        if config.access.sign_in != "none" and who.source == "local":
            print_line(f"To act, set {TOKEN_ENV} to an API token of `trimtab tokens create`.")

    body = {
        "name": who.name,
        "groups": list(who.groups),
        "source": who.source,
        "roles": roles,
        "scopes": scopes,
    }
    return emit(Answer(body, show), as_json=as_json)


_SOURCES = {
    "local": "the operating system's user",
    "token": "an API token",
}
