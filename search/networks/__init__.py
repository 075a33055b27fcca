"""Whole models: their tasks, the search over all of them, and the check of what it found."""
