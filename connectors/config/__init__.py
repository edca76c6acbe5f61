"""Configuration: the file, its sections, its secrets, and the check of all endpoints."""
