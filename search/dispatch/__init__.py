"""How a later build finds what a search found, and what becomes of it on other programs."""
