"""Balance over time: trends, hot bundles, top movers, gaps."""
