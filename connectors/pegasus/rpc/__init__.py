"""The "THFT" protocol of Pegasus servers: frames, structs, calls, and a client of meta servers."""
