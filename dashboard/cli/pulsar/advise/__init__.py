"""Commands of ``trimtab advise``."""
