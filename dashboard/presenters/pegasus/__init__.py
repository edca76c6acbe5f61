"""Texts and tables that several pages of Pegasus clusters share."""
