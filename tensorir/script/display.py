"""Display of script text: highlighted on a terminal and in notebooks, plain elsewhere."""

from __future__ import annotations

import html
import sys
from importlib.util import find_spec
from typing import Any, Final

from tensorir.errors import IRValueError

# By default notebooks show `pre` in a proportional font with broken lines.
_STYLE: Final = (
    "font-family: Menlo, Consolas, 'DejaVu Sans Mono', monospace; "
    "white-space: pre; overflow-x: auto"
)


def preformatted(text: str) -> str:
    """Return text in columns as HTML in a fixed-width font whose lines are not broken."""
    return f'<pre style="{_STYLE}">{html.escape(text)}</pre>'


def to_html(text: str, style: str | None = None) -> str:
    """Return script text as HTML in a fixed-width font, highlighted where Pygments is installed."""
    if find_spec("pygments") is None:
        return preformatted(text)
    from pygments.formatters import HtmlFormatter  # noqa: PLC0415

    colours = _pygments_style(style or "light")
    return _highlight(
        text, HtmlFormatter(style=colours, noclasses=True, nobackground=True, prestyles=_STYLE)
    )


def display(text: str, style: str | None = None) -> None:
    """Show script text on the terminal or in the notebook.

    `style` is `"light"`, `"dark"`, `"ansi"` (the colours of the terminal) or the name of a style of
    Pygments. By default, the output is coloured on terminals and in notebooks, if Pygments is
    installed.
    Raises IRValueError for an unknown style.
    """
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is not None and "IPKernelApp" in getattr(shell, "config", {}):
        from IPython.display import HTML  # noqa: PLC0415
        from IPython.display import display as show  # noqa: PLC0415

        show(HTML(to_html(text, style)))
        return
    if (style is not None or sys.stdout.isatty()) and find_spec("pygments") is not None:
        from pygments.formatters import Terminal256Formatter, TerminalFormatter  # noqa: PLC0415

        formatter = (
            TerminalFormatter()
            if style in (None, "ansi")
            else Terminal256Formatter(style=_pygments_style(style))
        )
        text = _highlight(text, formatter).rstrip("\n")
    sys.stdout.write(text + "\n")


_SHORT_STYLES: Final = {"light": "default", "dark": "monokai", "ansi": "default"}


def _pygments_style(style: str) -> str:
    """Return the name that Pygments has for a style."""
    from pygments.styles import get_all_styles  # noqa: PLC0415

    name = _SHORT_STYLES.get(style, style)
    if name not in (known := sorted(get_all_styles())):
        raise IRValueError(
            f"unknown style {style!r}; expected {', '.join(_SHORT_STYLES)} or one of Pygments: "
            f"{', '.join(known)}"
        )
    return name


def _highlight(text: str, formatter: Any) -> str:
    from pygments import highlight  # noqa: PLC0415  heavy, and few programs show text in colour
    from pygments.lexers import PythonLexer  # noqa: PLC0415

    return str(highlight(text, PythonLexer(), formatter))
