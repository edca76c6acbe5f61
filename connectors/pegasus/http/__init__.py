"""The HTTP endpoints of Pegasus servers, on the same port as their remote procedure calls."""
