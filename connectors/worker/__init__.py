"""The worker: executes runs, one cluster a thread, under a lease."""
