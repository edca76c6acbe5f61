"""Activity: who did what, when and why, and the result; the journal, filtered and verified."""
