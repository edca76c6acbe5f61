"""What is asked of many Pulsar clusters at once."""
