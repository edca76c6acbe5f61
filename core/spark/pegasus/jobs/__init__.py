"""What is asked of many Pegasus clusters at once."""
