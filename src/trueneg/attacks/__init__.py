"""Attacks: examples changed such that a model that understands them should still give the same answer."""
