"""Tasks, one family a file."""
