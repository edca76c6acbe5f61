"""What the configuration allows on a cluster, as of now: its file is read again when it changes."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

from connectors.config.access import AccessConfig
from connectors.config.model import ClusterConfig, TrimtabConfig
from core.actions.approval import ApprovalRules
from core.actions.windows import Window
from core.errors import ConfigError, OpsError, UnknownNameError

_WRITTEN_S: Final = 1.0
"""A file that changed so short a while ago may be half written: editors empty it first."""


class WorkerLimits:
    """The limits of one cluster.

    Only ``read_only``, ``exclusions``, ``apply``, ``approval``, ``windows`` and roles are followed;
    how the cluster is reached stays as it was when the worker began. While the file cannot be read,
    and for a second after each change, the last limits hold; ``read_only = true`` holds at once.

    Args:
        config: Knows its file; one that came from none never changes.
        cluster: The cluster as of the beginning.
        report: Called once with what is wrong with the file.
    """

    def __init__(
        self, config: TrimtabConfig, cluster: ClusterConfig, report: Callable[[str], None]
    ) -> None:
        self._file = config.file
        self._connectors = config.connectors
        self._name = cluster.name
        self._current = cluster
        self._access = config.access
        self._report = report
        # not the file's of now: it may have changed since the configuration was read
        self._stamp: tuple[int, int] | None = None
        self._reported = ""

    def now(self) -> ClusterConfig:
        """Return the cluster with the limits that hold now."""
        stamp = self._look()
        if self._file is None or stamp == self._stamp:
            return self._current
        access, is_stop, is_young = self._access, False, _is_being_written(stamp)
        try:
            read = TrimtabConfig.load(self._file, self._connectors)
            access = read.access
            fresh = read.cluster(self._name)
        except UnknownNameError:  # taken out: whoever did that wants nothing done there
            changes: dict[str, object] = {"read_only": True}
        except ConfigError as exc:
            if not is_young:
                self._complain(exc)
            return self._current
        else:
            is_stop = fresh.read_only and "read_only" in fresh.model_fields_set
            changes = {
                "read_only": fresh.read_only,
                "exclusions": fresh.exclusions,
                "apply": fresh.apply,
                "approval": fresh.approval,
                "windows": fresh.windows,
            }
        if (is_young and not is_stop) or self._look() != stamp:
            return self._current
        self._stamp, self._reported, self._access = stamp, "", access
        self._current = self._current.model_copy(update=changes)
        return self._current

    def access(self) -> AccessConfig:
        """Return the current sign-in mode and roles."""
        self.now()
        return self._access

    def _look(self) -> tuple[int, int] | None:
        try:
            found = self._file.stat() if self._file is not None else None
        except OSError:
            return None
        return None if found is None else (found.st_mtime_ns, found.st_size)

    def _complain(self, exc: OpsError) -> None:
        sentence = f"The limits are unchanged: {exc}"
        if sentence != self._reported:
            self._reported = sentence
            self._report(sentence)


def _is_being_written(stamp: tuple[int, int] | None) -> bool:
    """Return whether a file changed recently; a set clock does not count."""
    return stamp is not None and 0.0 <= time.time() - stamp[0] / 1e9 < _WRITTEN_S


class LimitedCluster:
    """Current configuration of a cluster that is acted on.

    Args:
        limits: Returns it with the limits that hold at that moment; by default they never change.
    """

    def __init__(self, config: ClusterConfig, limits: Callable[[], ClusterConfig] | None) -> None:
        self._config = config
        self._limits = limits or (lambda: config)

    @property
    def name(self) -> str:
        """Trimtab's name of it."""
        return self._config.name

    @property
    def is_read_only(self) -> bool:
        """Whether the configuration refuses every action."""
        return self._limits().read_only

    @property
    def exclusions(self) -> Sequence[str]:
        """Names of namespaces or tables that plans never touch."""
        return self._limits().exclusions

    @property
    def approval(self) -> ApprovalRules:
        """When a run needs another person."""
        return self._limits().approval.rules()

    @property
    def windows(self) -> Sequence[Window]:
        """When nothing may be changed."""
        return [window.times() for window in self._limits().windows]

    @property
    def moves_per_day(self) -> int:
        """Most steps begun in 24 hours."""
        return self._limits().apply.moves_per_day

    @property
    def max_steps(self) -> int:
        """Most steps of one run."""
        return self._limits().apply.max_steps
