"""Attacks on SQuAD."""
