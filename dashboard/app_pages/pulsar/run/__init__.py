"""Parts of the run page for Pulsar clusters."""
