"""Maps of indices, and index arithmetic on arrays and in the place of values."""
