"""Finding in a later build what a search found, and applying it to other programs."""
