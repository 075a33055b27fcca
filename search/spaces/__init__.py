"""Design spaces as sets of points: sites of decisions, their columns, annotations."""
