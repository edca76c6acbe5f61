"""What a Pegasus cluster would have done under another policy or other switches."""
