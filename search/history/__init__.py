"""Finding the results of a search in a later build, and applying them to other programs."""
