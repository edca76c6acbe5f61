"""What the command line shows of Pulsar clusters alone."""
