"""Bundles: where the load is, by broker or namespace, and how a namespace cuts its ring."""
