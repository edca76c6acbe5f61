"""A Pegasus cluster on loopback: meta servers and replica servers that speak the real protocols."""
