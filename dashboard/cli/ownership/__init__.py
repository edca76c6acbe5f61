"""Commands on which broker owns what."""
