"""What a Pulsar cluster would have done under other strategies or settings."""
