"""Predictions of the leader's next round, recorded and compared with what it did."""
