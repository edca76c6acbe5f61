"""Files of topics, laid over the bundles of a snapshot."""
