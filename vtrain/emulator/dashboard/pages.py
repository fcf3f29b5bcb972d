"""Templates to HTML, and the headers that every page has.

Every text that a template shows is escaped, with its control characters made visible.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from importlib.metadata import version
from importlib.resources import files
from typing import TYPE_CHECKING, Any
from urllib.parse import quote_plus

from jinja2 import Environment, PackageLoader, StrictUndefined

from vtrain.output.terminal import on_one_line, visible

if TYPE_CHECKING:
    from starlette.responses import Response

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' blob:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "same-origin",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "cache-control": "no-store",
}
"""Nothing is fetched from elsewhere, nothing in a page is a program, and no other page may read this one.

Without a referrer of its own origin, a form of the page would be sent with `Origin: null`.
plotly's script adds style sheets of its own, and saves a chart as a picture by way of a blob.
"""
STATIC = {
    "style.css": "text/css; charset=utf-8",
    "script.js": "text/javascript; charset=utf-8",
    "charts.js": "text/javascript; charset=utf-8",
    "plotly.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
"""The files that pages load. `plotly.js` is that of the installed package."""
PLOTLY = version("plotly")
"""The version of that package. Without it this module cannot be imported, and the command names the extra."""


class Pages:
    """The templates, and the files that pages load."""

    def __init__(self) -> None:
        folder = files("vtrain.emulator.dashboard") / "static"
        self.static = {name: (folder / name).read_bytes() for name in STATIC if name != "plotly.js"}
        self._templates = Environment(
            loader=PackageLoader("vtrain.emulator.dashboard"),
            autoescape=True,
            undefined=StrictUndefined,
            finalize=_shown,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.filters |= {"line": on_one_line, "day": _day, "query": _query}
        content = hashlib.sha256(b"".join([*self.static.values(), PLOTLY.encode()]))
        self._templates.globals |= {"version": content.hexdigest()[:12]}

    def render(self, template: str, **values: Any) -> str:
        """A template with these values."""
        return self._templates.get_template(template).render(values)

    def answer(self, template: str, status: int = 200, **values: Any) -> Response:
        """A page."""
        from starlette.responses import Response  # a report is no answer of a server

        text = self.render(template, **values)
        return Response(as_bytes(text), status, HEADERS, media_type="text/html; charset=utf-8")


def as_bytes(text: str) -> bytes:
    """A text in UTF-8. Python keeps bytes of file names that are not UTF-8 as surrogates."""
    return text.encode("utf-8", "backslashreplace")


def _shown(value: Any) -> Any:
    # jinja2's own markup is a subclass of str, and stays
    return visible(value) if type(value) is str else value


def _day(moment: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(moment))


def _query(values: Mapping[str, Any]) -> str:
    """The query of an address; empty values are left out."""
    pairs = [
        f"{name}={quote_plus(str(value).encode('utf-8', 'surrogateescape'))}"
        for name, value in values.items()
        if value
    ]
    return "?" + "&".join(pairs) if pairs else ""
