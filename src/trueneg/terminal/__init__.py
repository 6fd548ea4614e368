"""What is shown to people on a terminal: printable text, progress, streams."""
