"""Complete runs: pre-training, fine-tuning, and the use of their results."""
