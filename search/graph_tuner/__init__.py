"""Layouts of what a graph passes between its kernels."""
