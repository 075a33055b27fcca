"""Maps of indices, accesses in terms of loops, and arithmetic on arrays of indices."""
