"""Worker processes, and the cores that they run on."""
