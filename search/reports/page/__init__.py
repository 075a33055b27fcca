"""The report of a search as one HTML page: a file, or live while the search runs."""

from search.reports.page.live_server import LiveReport
from search.reports.page.page import Report, report

__all__ = ["LiveReport", "Report", "report"]
