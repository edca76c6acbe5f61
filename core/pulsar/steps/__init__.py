"""The kinds of steps on a Pulsar cluster, one module each; the registry is ``registry.py``."""
