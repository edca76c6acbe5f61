"""Questions about what may come: topics to place, brokers to lose, strategies to choose from."""
