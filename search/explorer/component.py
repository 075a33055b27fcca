"""`Component`: data that Python computes and a script draws, in a notebook and on a page."""

from __future__ import annotations

import base64
import html
import json
import os
import zlib
from abc import ABC, abstractmethod
from importlib.resources import files
from pathlib import Path
from typing import Any, ClassVar

from search.explorer.program_view import Data
from tensorir.errors import TensorIRError
from tensorir.replaced_file import replaced_file


def assets(*names: str) -> str:
    """Return the concatenated texts of asset files."""
    folder = files("search.explorer") / "assets"
    return "\n".join((folder / name).read_text(encoding="utf-8") for name in names)


def packed(data: Any) -> str:
    """Return data as compressed JSON in base64; the function `unpacked` of the scripts reads it."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode("ascii")


class Component(ABC):
    """A view of data: a widget in a notebook, or a page without Python (`save`).

    A notebook shows the widget if the extra `notebook` is installed, otherwise the page.
    """

    title: str
    scripts: ClassVar[tuple[str, ...]]
    """The files of the scripts that draw it."""
    styles: ClassVar[tuple[str, ...]]

    @abstractmethod
    def data(self, *, whole: bool = False) -> Data:
        """Return what is drawn, as data for JSON; with `whole`, for a page without Python."""

    @abstractmethod
    def answer(self, request: Data) -> Data:
        """Perform a request of the browser, and return what to add to it as the answer.

        Raises TensorIRError, KeyError, TypeError or ValueError for an invalid request.
        """

    def respond(self, request: Data) -> Data:
        """Perform a request of the browser, and return the request with the answer.

        If the request is refused, the answer has `error`, a sentence, and nothing has changed.
        """
        try:
            return {**request, **self.answer(request)}
        except (TensorIRError, KeyError, TypeError, ValueError) as error:
            return {"do": request.get("do"), "error": str(error).split("\n", 1)[0]}

    def page(self) -> str:
        """Return a page that needs neither Python nor a network."""
        return assets("page.html").format(
            title=html.escape(self.title),
            styles=assets(*self.styles),
            data=packed(self.data(whole=True)),
            script=assets(*self.scripts),
        )

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the `page` to a file and return its path."""
        with replaced_file(path) as file:
            file.write(self.page().encode())
        return Path(path)

    def widget(self) -> Any:
        """Return a widget, which sends requests and gets answers.

        Raises ImportError, which names the extra, without anywidget.
        """
        try:
            import anywidget  # noqa: PLC0415 - an extra
            import traitlets  # noqa: PLC0415 - comes with it
        except ImportError as error:
            raise ImportError(
                "an explorer in a notebook needs anywidget: pip install 'tensorir[notebook]'; "
                "its method save writes a page without it"
            ) from error

        class Widget(anywidget.AnyWidget):  # type: ignore[misc]
            _esm = assets(*self.scripts, "notebook.js")
            _css = assets(*self.styles)
            data = traitlets.Dict().tag(sync=True)

        shown = Widget(data=self.data())
        shown.on_msg(lambda widget, message, _: widget.send(self.respond(message)))
        return shown

    def _repr_mimebundle_(self, **options: Any) -> Any:
        try:
            shown = self.widget()
        except ImportError:
            text = f'{self!r}: .save("page.html") writes it as a page'
            return {"text/html": self._repr_html_(), "text/plain": text}
        return shown._repr_mimebundle_(**options)

    def _repr_html_(self) -> str:
        return page_in_frame(self.page(), repr(self)[1:-1], "46em")


def page_in_frame(page: str, title: str, height: str) -> str:
    """Return a page as a frame; its scripts run without access to the page around it."""
    style = f"width:100%;height:{height};border:1px solid #8888"
    named = f'title="{html.escape(title)}" srcdoc="{html.escape(page)}"'
    return f'<iframe sandbox="allow-scripts" {named} style="{style}"></iframe>'
