"""What the cluster would have done under other settings, played again on recorded load."""
