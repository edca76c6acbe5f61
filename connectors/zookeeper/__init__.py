"""Reading ZooKeeper: one watching client, bulk reads in flight, bounded."""
