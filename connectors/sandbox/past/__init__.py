"""A simulated past for the sandboxes: minutes before their start, from their own workload."""
