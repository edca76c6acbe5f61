"""The pure part of Trimtab: snapshots, health, placement, plans. No client, no clock, no pages."""
