"""Plans on a Pegasus cluster: how they are built, checked, previewed and undone."""
