"""Structural equality and hashes of programs, and paths to differences."""
