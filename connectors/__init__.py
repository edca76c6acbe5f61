"""Everything that talks to a real system."""
