"""The command line: each verb calls one function and reports an error in one line."""

from trueneg.cli.main import main

__all__ = ["main"]
