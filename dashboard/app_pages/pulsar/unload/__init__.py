"""Unload preview, and undo: who would take these bundles, what changes, and who notices."""
