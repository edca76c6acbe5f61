"""Acting on a Pegasus cluster: the ports of :mod:`core.actions` for its steps."""
