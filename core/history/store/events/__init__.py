"""What happened between two snapshots, by system."""
