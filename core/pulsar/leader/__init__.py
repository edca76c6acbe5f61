"""The leader: what snapshots show of it, and its replay from ZooKeeper events.

:mod:`.facts` infers from saved snapshots. :mod:`.events` is the form of events and recordings,
:mod:`.prediction` what a model of a leader predicts and the record that the collector publishes.
"""
