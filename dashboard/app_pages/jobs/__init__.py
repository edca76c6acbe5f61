"""Jobs: long computations over whole fleets: started, followed, read."""
