"""Searching the programs of tasks, by the names of Ansor."""
