"""What acting on a cluster needs in every system: the clock, lease, limits, broken runs."""
