"""One bundle: its owner, its place on the ring, its load, its topics and its past."""
