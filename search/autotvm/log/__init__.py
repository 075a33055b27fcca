"""Logs of templates, explained: their lines, their tables, two of them side by side."""
