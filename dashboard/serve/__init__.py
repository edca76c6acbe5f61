"""The server of the pages: a package, since processes that it starts never import a `__main__`."""
