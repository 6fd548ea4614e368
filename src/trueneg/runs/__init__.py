"""Runs from beginning to end: pre-training, fine-tuning, and what comes of them."""
