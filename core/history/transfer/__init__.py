"""A time range as one file: export and import."""
