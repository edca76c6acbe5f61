"""Plans on a Pulsar cluster: how they are built, checked, previewed and undone."""
