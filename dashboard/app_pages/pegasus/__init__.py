"""The pages of Pegasus clusters, and what the pages about every cluster show of them."""
