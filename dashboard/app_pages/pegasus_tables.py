"""Tables and partitions: health, traffic, size, and where the replicas lie."""

from __future__ import annotations

from core.units import counted
from dashboard.components import frame, words

page = frame.open_pegasus_page("Tables & partitions")
tables = page.facts.tables.values()
partitions = sum(one.partition_count for one in tables)
words.answer(f"{counted(len(tables), 'table')} with {counted(partitions, 'partition')}.")
