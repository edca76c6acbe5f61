"""Commands on plans and their runs."""
