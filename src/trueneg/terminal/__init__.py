"""Terminal output: printable text, progress, streams."""
