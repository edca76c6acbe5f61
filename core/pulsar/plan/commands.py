"""The commands that do by hand what a step does: to copy, to check, to trust."""

from __future__ import annotations

import shlex
from typing import Final

from core.pulsar.steps.base import PulsarStep

_ANY_BROKER: Final = "http://localhost:8080"


def rest_line(step: PulsarStep, web_url: str | None) -> str:
    """Return the ``curl`` line of a step.

    Redirects keep method and body; credentials are left out on purpose.

    Args:
        step: The step.
        web_url: Web address of its owner, or of any broker; ``None``: the broker id is used.
    """
    unknown = _ANY_BROKER if step.owner is None else f"http://{step.owner}"
    base = (web_url or unknown).rstrip("/")
    request = step.request()
    words = ["curl", "-X", request.method, "-L"]
    if request.body is not None:
        words += ["-H", "Content-Type: application/json", "-d", request.body]
    return shlex.join([*words, f"{base}/admin/v2/{request.path}"])
