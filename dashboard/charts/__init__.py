"""Tables turned into chart specifications; pure."""
