"""Apache Pegasus: its tables, its health rules and its balancer, computed and never touched."""
