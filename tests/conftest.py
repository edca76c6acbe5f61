"""Having this file here lets every test folder import the shared modules beside it."""
