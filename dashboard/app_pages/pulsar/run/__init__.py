"""What the run page shows of runs on Pulsar clusters."""
