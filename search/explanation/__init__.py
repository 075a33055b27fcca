"""Explanations of logs of measurements, whichever tool wrote them: tables, pictures, reports."""
