"""Jobs on Spark: each the same answer as its kernel gives in process."""
