"""The report as an object, for programs and notebooks."""

from __future__ import annotations

import html
import sys
from typing import Any, TextIO

from .. import _native
from . import document, files, text


class Verdict(dict):
    """One row of the document's verdicts; its keys are attributes, too."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


class Report:
    """What is known about this process's memory at one moment. ``str()`` is for people; it has no colour. As the last
    value of a notebook's cell it is shown as the page.

    Attributes:
        document: The whole report as plain data (docs/reference/report.md).
        verdicts: What is accused, the surest and largest first, and last what is not material: kind, file, line, bytes,
            bytes_per_epoch, confidence, material, advice and more, as keys and as attributes.
    """

    def __init__(self) -> None:
        self.document = document.build()
        self.verdicts = [Verdict(row) for row in self.document["verdicts"]]

    def __str__(self) -> str:
        return text.render(self.document)

    def __repr__(self) -> str:
        return f"<frugal_alloc report: {len(self.verdicts)} verdicts>"

    def _repr_html_(self) -> str:
        """What a notebook shows: the page in a frame of its own, since its styles are not the notebook's; without
        jinja2 the text."""
        page = files.to_html(self.document)
        if page is None:
            return f"<pre>{html.escape(str(self))}</pre>"
        # Without it a link to a part of the page would be one to the notebook.
        page = page.replace("<head>", '<head><base href="about:srcdoc">', 1)
        style = "width:100%;height:40rem;border:0"
        # The frame may run the page's scripts, and can reach nothing of the notebook.
        return f'<iframe sandbox="allow-scripts" style="{style}" srcdoc="{html.escape(page)}"></iframe>'

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """What IPython shows in a terminal."""
        printer.text(str(self))

    def print(self, file: TextIO | None = None) -> None:
        """Prints the text (on standard output if not told otherwise), with colour where that is a terminal."""
        file = sys.stdout if file is None else file
        is_terminal = getattr(file, "isatty", lambda: False)()
        import os

        file.write(text.render(self.document, colour=is_terminal and "NO_COLOR" not in os.environ))

    def to_json(self, path: str | None = None) -> str:
        """The document as JSON; with a path it is written there, and the path returned.

        Raises:
            FrugalAllocError: the file cannot be written.
        """
        return _written(files.to_json(self.document), path)

    def to_html(self, path: str | None = None) -> str:
        """The report as one page that needs no network; with a path it is written there, and the path returned, which
        is what a notebook shows.

        Raises:
            FrugalAllocError: the file cannot be written, or jinja2, which comes with torch, is not installed.
        """
        page = files.to_html(self.document)
        if page is None:
            raise _native.FrugalAllocError("a page needs jinja2: pip install jinja2")
        return _written(page, path)

    def to_memory_viz(self, path: str) -> None:
        """Writes the GPUs' memory as a pickle for pytorch.org/memory_viz: what is held now, with the stacks that asked
        for it; no history.

        Raises:
            FrugalAllocError: the file cannot be written.
        """
        _write(path, files.to_memory_viz(self.document))


def _written(content: str, path: str | None) -> str:
    if path is None:
        return content
    _write(path, content.encode())
    return str(path)


def _write(path: str, data: bytes) -> None:
    try:
        files.write_bytes(str(path), data)
    except OSError as error:
        raise _native.FrugalAllocError(f"{path} cannot be written: {error.strerror}") from None
