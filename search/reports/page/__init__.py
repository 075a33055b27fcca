"""The report of a search as one page to look at: a file, or live while the search runs."""

from search.reports.page.live_server import LiveReport
from search.reports.page.written_report import Report, report

__all__ = ["LiveReport", "Report", "report"]
