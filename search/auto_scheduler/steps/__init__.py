"""Ansor's transform steps: read and written, kept as states, made schedules."""
