"""Snapshots of Pulsar out of what brokers store and publish: znodes, load topics, dumps."""
