"""Commands on capacity and failures."""
