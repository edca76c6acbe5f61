"""Who a person is: passwords, API tokens, sessions and the installation's key."""
