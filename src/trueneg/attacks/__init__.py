"""Attacks: examples changed so that a model that understood them would still answer alike."""
