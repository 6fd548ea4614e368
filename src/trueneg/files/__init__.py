"""Files that other programs, other people and sudden ends may have touched: written whole, read with suspicion."""
