"""Fleet overview: every cluster in one row, and what is wrong on the chosen one."""
