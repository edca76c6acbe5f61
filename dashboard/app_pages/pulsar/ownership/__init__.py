"""Ownership: who owns what, what does not fit together, who leads, what a broker failure costs."""
