"""The commands that do by hand what a step does: to copy, to check, to trust."""

from __future__ import annotations

import json
import shlex
from typing import Final, assert_never
from urllib.parse import quote

from core.ids import namespace_of
from core.plan.pegasus_words import shell_lines
from core.plan.policy_kinds import policy_kind
from core.plan.policy_lines import policy_line
from core.plan.steps import (
    PulsarStep,
    SetDynamicSetting,
    SetPolicy,
    SplitBundle,
    Step,
    UnloadBundle,
)

_ATTACHED: Final = "namespace_resource_group"  # its value is part of the address
_ANY_BROKER: Final = "http://localhost:8080"


def lines_by_hand(step: Step) -> tuple[str, ...]:
    """Return the lines that do a step by hand: of ``pulsar-admin``, or of Pegasus' shell."""
    match step:
        case UnloadBundle() | SplitBundle() | SetDynamicSetting() | SetPolicy():
            return (pulsar_admin_line(step),)
        case _:
            return shell_lines(step)


def pulsar_admin_line(step: PulsarStep) -> str:
    """Return the ``pulsar-admin`` line of a step, quoted for a shell."""
    match step:
        case UnloadBundle():
            towards = ["-d", step.destination] if step.destination is not None else []
            words = ["namespaces", "unload", *_bundle_words(step.bundle), *towards]
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
        case SetPolicy():
            return policy_line(step)
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
    words = ["curl", "-X", request_method(step), "-L"]
    body = request_body(step)
    if body is not None:
        words += ["-H", "Content-Type: application/json", "-d", body]
    return shlex.join([*words, f"{base}/admin/v2/{request_path(step)}"])


def request_method(step: PulsarStep) -> str:
    """Return the method of a step's request."""
    if isinstance(step, SetDynamicSetting | SetPolicy) and step.value is None:
        return "DELETE"
    if isinstance(step, SetPolicy):
        return policy_kind(step.policy).put
    return "POST" if isinstance(step, SetDynamicSetting) else "PUT"


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
        case SetPolicy():
            path = policy_kind(step.policy).path(step.name, step.cluster)
            if step.policy == _ATTACHED and step.value is not None:
                return f"{path}/{quote(step.value, safe='')}"
            return path
        case _:
            assert_never(step)


def request_body(step: PulsarStep) -> str | None:
    """Return the body of a step's request: positions in decimals, or a policy as it is."""
    if isinstance(step, SplitBundle) and step.positions:
        return json.dumps(step.positions)
    if isinstance(step, SetPolicy) and step.policy != _ATTACHED:
        return step.value
    return None


def _bundle_words(bundle: str) -> list[str]:
    return [namespace_of(bundle), "-b", bundle.rpartition("/")[2]]


def _bundle_path(bundle: str) -> str:
    namespace = quote(namespace_of(bundle), safe="/")
    return f"{namespace}/{quote(bundle.rpartition('/')[2], safe='')}"
