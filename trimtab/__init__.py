"""Trimtab for programs: :class:`trimtab.client.Client` asks a running Trimtab."""
