"""CLINE's views: texts with words replaced by others that keep the meaning, and by others that reverse it."""
