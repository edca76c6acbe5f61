"""The rounds of the leader broker: what it sees, recorded and replayed as it happens."""
