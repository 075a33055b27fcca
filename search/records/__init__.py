"""Files of records: how lines are appended, read, and ended by errors."""
