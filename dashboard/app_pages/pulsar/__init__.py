"""What the pages about clusters of every system show of Pulsar."""
