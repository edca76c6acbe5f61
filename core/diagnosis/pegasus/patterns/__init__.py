"""What may be wrong with a Pegasus cluster: one module a family of causes."""
