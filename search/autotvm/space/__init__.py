"""Knobs, the values that they can take, and the space of all configurations."""
