"""Detectors against human judgements of substitutes."""
