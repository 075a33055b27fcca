"""Showing script text: highlighted on a terminal and in notebooks, plain elsewhere."""

from __future__ import annotations

import html
import sys
from importlib.util import find_spec
from typing import Final

# The pages that notebooks are shown on have a proportional font for `pre`, and break its lines.
_STYLE: Final = (
    "font-family: Menlo, Consolas, 'DejaVu Sans Mono', monospace; "
    "white-space: pre; overflow-x: auto"
)


def preformatted(text: str) -> str:
    """Return text in columns as HTML in a fixed-width font whose lines are not broken."""
    return f'<pre style="{_STYLE}">{html.escape(text)}</pre>'


def to_html(text: str) -> str:
    """Return script text as HTML in a fixed-width font, highlighted where Pygments is installed."""
    if find_spec("pygments") is None:
        return preformatted(text)
    from pygments import highlight  # noqa: PLC0415  heavy, and only notebooks need it
    from pygments.formatters import HtmlFormatter  # noqa: PLC0415
    from pygments.lexers import PythonLexer  # noqa: PLC0415

    formatter = HtmlFormatter(noclasses=True, nobackground=True, prestyles=_STYLE)
    return str(highlight(text, PythonLexer(), formatter))


def display(text: str) -> None:
    """Show script text where the program runs."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is not None and "IPKernelApp" in getattr(shell, "config", {}):
        from IPython.display import HTML  # noqa: PLC0415
        from IPython.display import display as show  # noqa: PLC0415

        show(HTML(to_html(text)))
        return
    if sys.stdout.isatty() and find_spec("pygments") is not None:
        from pygments import highlight  # noqa: PLC0415
        from pygments.formatters import TerminalFormatter  # noqa: PLC0415
        from pygments.lexers import PythonLexer  # noqa: PLC0415

        text = str(highlight(text, PythonLexer(), TerminalFormatter())).rstrip("\n")
    sys.stdout.write(text + "\n")
