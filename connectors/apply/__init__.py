"""How Trimtab acts on a Pulsar cluster: look, send, look again, under a lease."""
