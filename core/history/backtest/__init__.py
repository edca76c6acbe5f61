"""What the cluster would have done under other settings, simulated on recorded load."""
