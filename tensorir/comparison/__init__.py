"""When two programs are the same: structural equality and hashes, and where they differ."""
