"""A local fleet that speaks the real protocols."""
