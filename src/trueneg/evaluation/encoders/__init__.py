"""Encoders as they are: sentence similarity and triplets."""
