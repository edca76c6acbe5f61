"""Metrics of brokers: from a Prometheus server, or from their own ``/metrics``."""
