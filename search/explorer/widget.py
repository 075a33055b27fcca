"""The explorer as a widget of a notebook: what the browser asks of it, and the answers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from search.explorer.program_view import Data
from tensorir.errors import TensorIRError

if TYPE_CHECKING:
    from search.explorer.explorer import Explorer


def explorer_widget(explorer: Explorer) -> Any:
    """Return a widget of an explorer; ImportError, which names the extra, without anywidget."""
    try:
        import anywidget  # noqa: PLC0415 - an extra
        import traitlets  # noqa: PLC0415 - comes with it
    except ImportError as error:
        raise ImportError(
            "the explorer in a notebook needs anywidget: pip install 'tensorir[notebook]'; "
            "Explorer.save writes a page without it"
        ) from error
    assets = Path(__file__).parent / "assets"

    class ExplorerWidget(anywidget.AnyWidget):  # type: ignore[misc]
        """A view of an explorer, with the data that it shows."""

        _esm = assets / "explorer.js"
        _css = assets / "explorer.css"
        data = traitlets.Dict().tag(sync=True)

    shown = ExplorerWidget(data=explorer.data())

    def answer(widget: Any, message: Data, buffers: object) -> None:
        del buffers
        widget.send(respond(explorer, message))

    shown.on_msg(answer)
    return shown


def respond(explorer: Explorer, message: Data) -> Data:
    """Do what the browser asks for, and return the answer.

    Requests are `{"do": "decide", "step": k, "decision": d}`, and `{"do": what, "step": k}` with
    `view`, `details` or `measure`, for the program after k steps. An answer has the `do` and `step`
    of the request, and `data`, `view`, `details` or `seconds`. If the request is refused, it has
    `error`, a sentence, and nothing has changed.
    """
    asked = message.get("do")
    try:
        step = int(message["step"])
        answer: Data = {"do": asked, "step": step}
        if asked == "decide":
            explorer.decide(step, message["decision"])
            return {**answer, "data": explorer.data()}
        if asked == "view":
            return {**answer, "view": explorer.view(step)}
        if asked == "details":
            return {**answer, "details": explorer.details(step)}
        if asked == "measure":
            return {**answer, "seconds": explorer.measure(step)}
        return {**answer, "error": f"unknown request {asked!r}"}
    except (TensorIRError, KeyError, TypeError, ValueError) as error:
        return {"do": asked, "error": str(error).split("\n", 1)[0]}
