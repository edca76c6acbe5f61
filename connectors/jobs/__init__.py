"""Jobs: long computations in the background, with a queue, a server and result tables."""
