"""Walking and rebuilding programs: visitors, rewriters, copies with new definitions."""
