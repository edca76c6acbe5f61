"""The failure drill: what happens if a broker, a failure domain or a node is lost."""
