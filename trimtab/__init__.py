"""Trimtab for programs: :class:`trimtab.client.Client` is the client of a running Trimtab."""
