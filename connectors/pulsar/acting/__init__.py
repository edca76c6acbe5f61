"""What the actions of Pulsar share: the cluster's port, bundles, policies, addresses."""
