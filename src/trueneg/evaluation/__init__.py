"""Evaluation of models: predictions, metrics, and statistics that quantify their uncertainty."""
