"""Reads of the pages: SQL over the files of a period."""
