"""One broker: its resources against their limits, its bundles, what it gained and lost."""
