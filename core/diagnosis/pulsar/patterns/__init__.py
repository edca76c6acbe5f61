"""Patterns: each module knows one family of causes; :mod:`..registry` lists them."""
