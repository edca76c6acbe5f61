"""Executing plans: guards, journal, executor. The one way in which Trimtab changes anything."""
