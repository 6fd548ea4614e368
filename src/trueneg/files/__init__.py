"""File input and output that is safe against kills, other processes and damaged or foreign content."""
