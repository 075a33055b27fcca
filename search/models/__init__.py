"""Whole models: their tasks, their search and its check, and layouts between kernels."""
