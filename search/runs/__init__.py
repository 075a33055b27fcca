"""One run of a search: its plan, its journal, and how its winner is named."""
