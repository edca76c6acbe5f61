"""Tables and partitions: health, traffic, size and where replicas are."""
