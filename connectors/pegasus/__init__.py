"""Apache Pegasus: its binary remote procedure calls and its HTTP endpoints."""
