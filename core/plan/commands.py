"""The commands that do by hand what a step does: to copy, to check, to trust."""

from __future__ import annotations

import shlex
from urllib.parse import quote

from core.ids import namespace_of
from core.plan.model import UnloadBundle


def pulsar_admin_line(step: UnloadBundle) -> str:
    """Return the ``pulsar-admin`` line of a step, quoted for a shell."""
    words = ["pulsar-admin", "namespaces", "unload", namespace_of(step.bundle)]
    words += ["-b", step.bundle.rpartition("/")[2]]
    if step.destination is not None:
        words += ["-d", step.destination]
    return shlex.join(words)


def rest_line(step: UnloadBundle, web_url: str | None) -> str:
    """Return the ``curl`` line of a step; without a known address the broker id stands for it.

    Redirects keep method and body; credentials are left out on purpose.
    """
    base = (web_url or f"http://{step.owner}").rstrip("/")
    namespace = quote(namespace_of(step.bundle), safe="/")
    url = f"{base}/admin/v2/namespaces/{namespace}/{quote(step.bundle.rpartition('/')[2])}/unload"
    if step.destination is not None:
        url += f"?destinationBroker={quote(step.destination, safe=':')}"
    return shlex.join(["curl", "-X", "PUT", "-L", url])
