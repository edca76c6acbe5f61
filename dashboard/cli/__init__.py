"""The ``trimtab`` command: one folder or module per group of commands."""
