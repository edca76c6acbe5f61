"""Reading ZooKeeper: one client, bulk reads in flight, bounded; and the session of actions."""
