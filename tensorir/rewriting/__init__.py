"""Walking and rebuilding programs: visitors, rewriters, copies with new names."""
