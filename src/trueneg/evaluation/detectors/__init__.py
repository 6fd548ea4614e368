"""Detectors against human judgement of substitutes."""
