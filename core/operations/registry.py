"""Every operation by name: the one list of them. A new one is a module and a line here."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from core.errors import UnknownNameError
from core.operations.operation import Operation, operation_in

MODULES: Final = {
    "balance": "core.operations.balance",
    "diagnose": "core.operations.diagnose",
    "drill": "core.operations.drill",
    "health": "core.operations.health",
    "lookup": "core.operations.lookup",
    "owners": "core.operations.owners",
    "place": "core.operations.place",
    "shed": "core.operations.shed",
    "simulate": "core.operations.simulate",
    "tenants": "core.operations.tenants",
}


@lru_cache(maxsize=1)
def operations() -> Mapping[str, Operation[Any, Any]]:
    """Return every operation by name."""
    return {name: operation_in(module) for name, module in MODULES.items()}


def operation_named(name: str) -> Operation[Any, Any]:
    """Return an operation.

    Raises:
        UnknownNameError: There is none of that name.
    """
    if name not in MODULES:
        raise UnknownNameError.of("operation", name, MODULES)
    return operation_in(MODULES[name])
