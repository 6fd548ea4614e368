"""Encoders without fine-tuning: sentence similarity and triplets."""
