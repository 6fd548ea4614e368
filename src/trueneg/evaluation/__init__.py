"""What a model can do, measured: predictions, metrics, and statistics that say how sure they are."""
