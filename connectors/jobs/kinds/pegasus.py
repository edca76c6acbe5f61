"""Jobs on Pegasus clusters: what the balancer would propose."""

from __future__ import annotations

from typing import Final

from connectors.jobs.kinds.fleet import kind_of
from core.operations import balance

KINDS: Final = (kind_of(balance.OPERATION),)
