"""A step kind is one module in its system's steps, and one in its system's actions."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path

from connectors.pegasus.actions import ACTIONS as PEGASUS_ACTIONS
from connectors.pulsar.actions import ACTIONS as PULSAR_ACTIONS
from core.step import StepBase
from core.systems import STEPS

ROOT = Path(__file__).parents[2]
PACKAGES = ("core", "connectors", "dashboard", "trimtab")
KINDS = STEPS.kinds


def left_abstract(kind: type[StepBase]) -> Iterator[str]:
    """Yield the members that only raise NotImplementedError."""
    for name in dir(kind):
        member = inspect.getattr_static(kind, name)
        function = getattr(member, "fget", None) or getattr(member, "__func__", member)
        is_ours = inspect.isfunction(function) and function.__module__.startswith("core.")
        if is_ours and "raise NotImplementedError" in inspect.getsource(function):
            yield f"{kind.__name__}.{name}"


def test_every_kind_has_all_that_is_asked_of_it() -> None:
    offenders = [name for kind in KINDS for name in left_abstract(kind)]
    assert not offenders, "members that a kind does not override"


def test_every_kind_is_a_module_of_its_system_and_has_an_action() -> None:
    actions = {"pulsar": PULSAR_ACTIONS, "pegasus": PEGASUS_ACTIONS}
    offenders = []
    for kind in KINDS:
        core, system, steps, *_ = kind.__module__.split(".")
        if (core, steps) != ("core", "steps") or kind not in actions[system]:
            offenders.append(kind.__name__)
    assert not offenders, "kinds outside core/<system>/steps, or without an action"
    assert len({kind.__module__ for kind in KINDS}) == len(KINDS), "two kinds in one module"


def kinds_asked_for(tree: ast.AST, names: frozenset[str]) -> Iterator[tuple[int, str]]:
    """Yield lines where ``isinstance``, ``match`` or a kind's tag tell kinds apart."""
    tags = {str(kind.__struct_config__.tag) for kind in KINDS}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "isinstance":
            asked = {one.id for one in ast.walk(node.args[1]) if isinstance(one, ast.Name)}
        elif isinstance(node, ast.MatchClass):
            asked = {ast.unparse(node.cls)}
        elif isinstance(node, ast.Compare):
            parts = [one for part in [node.left, *node.comparators] for one in ast.walk(part)]
            asked = {one.value for one in parts if isinstance(one, ast.Constant)} & tags
            for tag in asked:
                yield node.lineno, str(tag)
            continue
        else:
            continue
        for name in sorted(asked & names):
            yield node.lineno, name


def test_no_code_outside_a_kind_tells_kinds_apart() -> None:
    names = frozenset(kind.__name__ for kind in KINDS)
    offenders = [
        f"{path.relative_to(ROOT)}:{line} {name}"
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
        if path.parent.name != "steps"
        for line, name in kinds_asked_for(ast.parse(path.read_text()), names)
    ]
    assert not offenders, "ask a step for a capability instead (core/step.py)"
