"""One run, live: progress, steps, owners, predicted vs. actual."""
