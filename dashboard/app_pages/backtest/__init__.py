"""Back-test: which settings would have kept this cluster balanced, replayed from its history."""
