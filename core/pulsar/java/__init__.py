"""What Java does to texts, maps, lists and patterns: decisions of the brokers hang on it."""
