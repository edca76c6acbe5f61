"""The kinds of steps on a Pegasus cluster, one module each; the registry is ``registry.py``."""
