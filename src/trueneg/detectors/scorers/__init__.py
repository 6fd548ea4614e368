"""Scorers: how acceptable a substitute is in the place of a word."""
