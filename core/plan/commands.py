"""The commands that do by hand what a step does: to copy, to check, to trust."""

from __future__ import annotations

import json
import shlex
from typing import Final, assert_never
from urllib.parse import quote

from core.ids import namespace_of
from core.plan.pegasus_words import shell_lines
from core.plan.steps import PulsarStep, SetDynamicSetting, SplitBundle, Step, UnloadBundle

_ANY_BROKER: Final = "http://localhost:8080"


def lines_by_hand(step: Step) -> tuple[str, ...]:
    """Return the lines that do a step by hand: of ``pulsar-admin``, or of Pegasus' shell."""
    match step:
        case UnloadBundle() | SplitBundle() | SetDynamicSetting():
            return (pulsar_admin_line(step),)
        case _:
            return shell_lines(step)


def pulsar_admin_line(step: PulsarStep) -> str:
    """Return the ``pulsar-admin`` line of a step, quoted for a shell."""
    match step:
        case UnloadBundle():
            words = ["namespaces", "unload", *_bundle_words(step.bundle)]
            if step.destination is not None:
                words += ["-d", step.destination]
        case SplitBundle():
            words = ["namespaces", "split-bundle", *_bundle_words(step.bundle)]
            words += ["-san", step.algorithm]
            if step.positions:
                words += ["-sb", ",".join(str(position) for position in step.positions)]
            if step.is_unloaded:
                words += ["-u"]
        case SetDynamicSetting():
            verb = "delete" if step.value is None else "update"
            words = ["brokers", f"{verb}-dynamic-config", "--config", step.key]
            if step.value is not None:
                words += ["--value", step.value]
        case _:
            assert_never(step)
    return shlex.join(["pulsar-admin", *words])


def rest_line(step: PulsarStep, web_url: str | None) -> str:
    """Return the ``curl`` line of a step.

    Redirects keep method and body; credentials are left out on purpose.

    Args:
        step: The step.
        web_url: Web address of its owner, or of any broker; ``None``: the broker id stands for it.
    """
    unknown = _ANY_BROKER if step.owner is None else f"http://{step.owner}"
    base = (web_url or unknown).rstrip("/")
    method = "POST" if isinstance(step, SetDynamicSetting) else "PUT"
    if isinstance(step, SetDynamicSetting) and step.value is None:
        method = "DELETE"
    words = ["curl", "-X", method, "-L"]
    body = request_body(step)
    if body is not None:
        words += ["-H", "Content-Type: application/json", "-d", body]
    return shlex.join([*words, f"{base}/admin/v2/{request_path(step)}"])


def request_path(step: PulsarStep) -> str:
    """Return path and query of a step's request, below ``/admin/v2/``."""
    match step:
        case UnloadBundle():
            path = f"namespaces/{_bundle_path(step.bundle)}/unload"
            if step.destination is None:
                return path
            return f"{path}?destinationBroker={quote(step.destination, safe=':')}"
        case SplitBundle():
            unload = "true" if step.is_unloaded else "false"
            algorithm = quote(step.algorithm, safe="")
            path = f"namespaces/{_bundle_path(step.bundle)}/split"
            return f"{path}?unload={unload}&splitAlgorithmName={algorithm}"
        case SetDynamicSetting():
            path = f"brokers/configuration/{quote(step.key, safe='')}"
            return path if step.value is None else f"{path}/{quote(step.value, safe='')}"
        case _:
            assert_never(step)


def request_body(step: PulsarStep) -> str | None:
    """Return the body of a step's request: positions as JSON numbers, in decimals."""
    if isinstance(step, SplitBundle) and step.positions:
        return json.dumps(step.positions)
    return None


def _bundle_words(bundle: str) -> list[str]:
    return [namespace_of(bundle), "-b", bundle.rpartition("/")[2]]


def _bundle_path(bundle: str) -> str:
    namespace = quote(namespace_of(bundle), safe="/")
    return f"{namespace}/{quote(bundle.rpartition('/')[2], safe='')}"
