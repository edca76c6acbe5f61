"""Undo: the plan that reverts a run."""
