"""The Diagnose page: causes of uneven load, each with what its fix changes."""
