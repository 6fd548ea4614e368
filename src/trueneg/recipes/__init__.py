"""Experiments that one command reproduces, from data to table."""
