"""Commands on policies and isolation."""
