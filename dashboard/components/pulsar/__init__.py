"""Parts that several pages of Pulsar clusters share."""
