"""Commands on back-tests."""
