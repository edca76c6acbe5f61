"""Commands on sizes and limits."""
