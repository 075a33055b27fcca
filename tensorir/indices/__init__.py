"""Index maps, accesses as functions of loop variables, and arithmetic on arrays of indices."""
