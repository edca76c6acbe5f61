"""Executing plans: guards, journal, executor. Trimtab changes clusters by nothing else."""
