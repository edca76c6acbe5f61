"""What is wrong with a cluster: measures and findings."""
