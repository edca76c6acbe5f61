"""Parts of the back-test page for Pulsar clusters."""
