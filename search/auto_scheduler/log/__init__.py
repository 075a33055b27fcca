"""Ansor's logs: lines, files, as databases, explained."""
