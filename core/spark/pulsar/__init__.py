"""The Spark half of Pulsar: requests on many clusters, and one cluster over many tasks."""
