"""Commands of ``trimtab pegasus``, and what other commands need of Pegasus."""
