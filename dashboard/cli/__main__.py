"""``python -m dashboard.cli``: the same as ``trimtab``."""

from dashboard.cli.main import main

main()
