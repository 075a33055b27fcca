"""Walking and rebuilding programs: visitors, rewriters, copies with names of their own."""
