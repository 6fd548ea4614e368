"""Statistics: intervals, tests, and ranking metrics."""
