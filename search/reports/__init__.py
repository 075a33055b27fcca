"""What a search says while it runs, and the tables and axes that reports share."""
