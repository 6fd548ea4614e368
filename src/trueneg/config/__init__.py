"""Options, their bounds and presets, and how they are read and written."""
