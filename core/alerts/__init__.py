"""Alerts: what a person is told before anybody looks. Rules on facts, and how an alert goes on."""
