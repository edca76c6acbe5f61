"""A command's signature without what the command runs: help and completion must be fast.

Most of a command's start-up is the import of the kernels and clients that it calls. Its help needs
none of them: while a signature is read, their modules are stand-ins, from which everything can be
imported and nothing used. A command whose signature does use one is imported as a whole.
"""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any, Final, NoReturn, TypeVar

from typer.core import TyperArgument, TyperOption

T = TypeVar("T")

_OURS: Final = frozenset({"core", "connectors", "dashboard"})
_ALSO: Final = frozenset({"pyarrow", "numpy", "pydantic", "sqlalchemy", "deltalake", "pyspark"})
_NEEDED: Final = (".request", ".requests", "dashboard.services.sandbox", "dashboard.systems")
"""Modules whose names end so describe options: they are what a signature is made of."""
_OPERATION: Final = re.compile(r"core\.operations(\.\w+)?")
"""Modules that declare requests; the modules inside an operation's folder are not needed."""


ONLY: ContextVar[bool] = ContextVar("only_signatures", default=False)
"""Whether help or a completion is asked for: nothing that a command runs is imported then."""


class _UsedError(Exception):
    """A signature needs more than its stand-in has."""


class _StandIn:
    """Something of a module that is not imported."""

    def __getattr__(self, name: str) -> _StandIn:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def _used(self, *_given: Any, **_named: Any) -> NoReturn:
        raise _UsedError

    def __or__(self, other: object) -> _StandIn:
        return self

    def __mro_entries__(self, bases: tuple[object, ...]) -> tuple[type, ...]:
        """Let a class of a signature's module have it as a base."""
        return ()

    __ror__ = __getitem__ = __or__
    __call__ = __iter__ = __len__ = __bool__ = __str__ = __format__ = _used
    __repr__ = __contains__ = __add__ = __radd__ = __lt__ = __gt__ = __float__ = __int__ = _used


class _StandInModule(ModuleType):
    def __getattr__(self, name: str) -> _StandIn:
        if name.startswith("__"):
            raise AttributeError(name)
        return _StandIn()


class _StandIns(MetaPathFinder, Loader):
    """Finds a stand-in for every module that a signature does not need."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,  # noqa: ARG002 - the signature is Python's
    ) -> ModuleSpec | None:
        """Return the spec of a stand-in; ``None``: the module itself is imported."""
        top = fullname.partition(".")[0]
        if top not in _OURS | _ALSO or fullname.startswith("dashboard.cli"):
            return None
        if top in _OURS and (fullname.endswith(_NEEDED) or _OPERATION.fullmatch(fullname)):
            return None
        found = PathFinder.find_spec(fullname, path)
        if found is None:
            return None
        spec = ModuleSpec(fullname, self)
        spec.submodule_search_locations = found.submodule_search_locations
        return spec

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return the stand-in."""
        return _StandInModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing: there is nothing in it."""


class _RawType:
    """Passes a value on as it is. Typer's own type imports pydantic, half of the start-up."""

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:  # noqa: ARG002 - Typer's signature
        """Return the value as it was given."""
        return value


class RunNeededError(Exception):
    """A command was called of which only the signature is there."""


@contextlib.contextmanager
def only_signatures() -> Iterator[None]:
    """Let commands be signatures, with values as they were given."""
    kinds: tuple[Any, ...] = (TyperArgument, TyperOption)
    own = [kind.get_runtime_param for kind in kinds]
    token = ONLY.set(True)
    for kind in kinds:
        kind.get_runtime_param = lambda _param: _RawType()
    try:
        yield
    finally:
        ONLY.reset(token)
        for kind, method in zip(kinds, own, strict=True):
            kind.get_runtime_param = method


def signature_only(load: Callable[[], T]) -> T | None:
    """Return a loaded command whose callback must not be called; ``None``: it needs its kernels.

    Args:
        load: Imports the command.
    """
    with _stand_ins():
        try:
            return load()
        except (_UsedError, ImportError, AttributeError, TypeError, RuntimeError):
            return None


@contextlib.contextmanager
def _stand_ins() -> Iterator[None]:
    """Import stand-ins; nothing that was imported meanwhile stays."""
    before = set(sys.modules)
    finder = _StandIns()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for name in set(sys.modules) - before:
            if name.partition(".")[0] in _OURS | _ALSO:
                del sys.modules[name]
                parent, _, child = name.rpartition(".")
                if parent in sys.modules:
                    vars(sys.modules[parent]).pop(child, None)
