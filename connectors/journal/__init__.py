"""The journal in a database: append-only, hash-chained; and a lease where there is no ZooKeeper."""
