"""Kernels on Spark: the same answers for large fleets and long history."""
