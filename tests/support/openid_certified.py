"""A certified OpenID provider: ``oidc-provider`` for Node.js, from npm, on loopback."""

from __future__ import annotations

import json
import shutil
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Any, Final

import platformdirs
import requests
from filelock import FileLock
from openid_provider import CLIENT, SECRET

VERSION: Final = "9.13.3"
_START_S: Final = 60.0
_SCRIPT: Final = Path(__file__).with_suffix(".mjs")


@contextmanager
def certified_provider(
    folder: Path, pages: str, accounts: Mapping[str, Mapping[str, Any]], port: int
) -> Iterator[str]:
    """Give the provider's address.

    Args:
        folder: For its files.
        pages: Address of the pages, to which it leads back.
        accounts: Claims by what a person types as the login, which is also the subject.
        port: On which it listens.
    """
    home = _installed()
    script = home / _SCRIPT.name  # imports are looked for next to it
    script.write_text(_SCRIPT.read_text())
    file = folder / "accounts.json"
    redirect = f"{pages}/oauth2callback"
    content = {"redirect": redirect, "client": CLIENT, "secret": SECRET, "accounts": accounts}
    file.write_text(json.dumps(content))
    address = f"http://127.0.0.1:{port}"
    with (folder / "provider.log").open("wb") as log:
        process = subprocess.Popen(
            [_program("node"), str(script), str(port), str(file)],
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        until = monotonic() + _START_S
        while not _answers(address):
            assert process.poll() is None, (folder / "provider.log").read_text()
            assert monotonic() < until
            threading.Event().wait(0.1)
        yield address
    finally:
        process.terminate()
        process.wait(20)


def sign_in(session: requests.Session, start: str, login: str) -> requests.Response:
    """Go the provider's way from the page's link: type a login, allow it, come back."""
    answer = session.get(start, timeout=_START_S)
    for prompt in ("login", "consent"):
        if "/interaction/" not in answer.url:
            break
        form = {"prompt": prompt, "login": login, "password": "any"}
        answer = session.post(answer.url, data=form, timeout=_START_S)
    return answer


def _installed() -> Path:
    """Install it once into the user's cache."""
    home = Path(platformdirs.user_cache_dir("trimtab")) / f"oidc-provider-{VERSION}"
    home.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{home}.lock"):
        if not (home / "node_modules" / "oidc-provider").exists():
            words = [_program("npm"), "install", "--no-audit", "--no-fund", "--ignore-scripts"]
            words += ["--prefix", str(home), f"oidc-provider@{VERSION}"]
            home.mkdir(exist_ok=True)
            subprocess.run(words, check=True, capture_output=True, timeout=300)
    return home


def _program(name: str) -> str:
    found = shutil.which(name)
    assert found, f"{name} is not installed: .ci/servers installs it"
    return found


def _answers(address: str) -> bool:
    try:
        return requests.get(f"{address}/.well-known/openid-configuration", timeout=5).ok
    except requests.ConnectionError:
        return False
