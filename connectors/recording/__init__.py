"""Recording: every snapshot into the history, with what Trimtab itself did to the cluster."""
