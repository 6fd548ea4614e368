"""Scorers: how acceptable a substitute is in place of a word."""
