"""The kinds of jobs: on clusters of every system, of one system, and on the history."""
