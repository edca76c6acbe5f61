"""The topics in which brokers of the extensible manager publish load and ownership."""
