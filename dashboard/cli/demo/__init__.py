"""Commands on the demo and its sandbox."""
