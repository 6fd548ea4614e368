"""Encoders: any Hugging Face architecture with a masked-LM head, by itself or as an ELECTRA pair."""
