"""One run of a search: its plan, its journal, its trials, and how its winner is named."""
