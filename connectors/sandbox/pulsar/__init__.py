"""A local Pulsar fleet: a real ZooKeeper, simulated brokers."""
