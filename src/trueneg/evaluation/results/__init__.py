"""Results on disk, their summary and their comparison."""
