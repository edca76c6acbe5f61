"""One very large Pulsar cluster on Spark: no task holds all of its bundles."""
