"""The balancer of the meta server: what it would do, exactly as it would."""
