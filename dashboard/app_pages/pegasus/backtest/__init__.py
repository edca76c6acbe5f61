"""Parts of the back-test page for Pegasus clusters."""
