"""Commands on Pulsar clusters, and what the commands on any cluster show of them alone."""
