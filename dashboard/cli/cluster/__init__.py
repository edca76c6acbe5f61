"""Commands on a live cluster and the processes that read it."""
