"""Balance: what the cluster's balancer would do, what would be better, and doing it."""
