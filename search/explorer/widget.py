"""A component as a widget of a notebook, which sends requests and gets answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from search.explorer.component import assets
from search.explorer.program_view import Data

if TYPE_CHECKING:
    from search.explorer.component import Component


def widget_of(component: Component) -> Any:
    """Return a widget of a component; ImportError, which names the extra, without anywidget."""
    try:
        import anywidget  # noqa: PLC0415 - an extra
        import traitlets  # noqa: PLC0415 - comes with it
    except ImportError as error:
        raise ImportError(
            "an explorer in a notebook needs anywidget: pip install 'tensorir[notebook]'; "
            "its method save writes a page without it"
        ) from error

    class ComponentWidget(anywidget.AnyWidget):  # type: ignore[misc]
        """A view of a component, with the data that it shows."""

        _esm = assets(*component.scripts, "notebook.js")
        _css = assets(*component.styles)
        data = traitlets.Dict().tag(sync=True)

    shown = ComponentWidget(data=component.data())

    def answer(widget: Any, message: Data, buffers: object) -> None:
        del buffers
        widget.send(component.respond(message))

    shown.on_msg(answer)
    return shown
