"""The pages of Pulsar clusters, and what the pages about every cluster show of them."""
