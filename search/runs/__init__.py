"""The steps of a run: its batches, trials, claims and journal, and how its winner is named."""
