"""The Spark half of Pegasus: rounds of one cluster over many tasks, and of many clusters."""
