"""Structural equality and hashes of programs, and the place of a difference."""
