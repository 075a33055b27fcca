"""Whole models: their tasks, the search over all of them, its check, layouts between kernels."""
