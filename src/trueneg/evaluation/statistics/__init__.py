"""How sure a figure is: intervals, tests, and ranking metrics."""
