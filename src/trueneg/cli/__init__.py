"""The command line: verbs that call one function each, and say what went wrong in one line."""

from trueneg.cli.main import main

__all__ = ["main"]
