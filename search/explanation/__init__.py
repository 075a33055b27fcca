"""What is in a log of measurements, whichever tool has written it: tables, pictures, reports."""
