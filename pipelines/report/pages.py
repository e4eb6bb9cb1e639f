"""Render pages: one HTML file without scripts and external resources.

All names, URLs and reasons in a page are untrusted and are shown as text.
"""

import shlex
from datetime import UTC
from functools import cache
from itertools import islice
from pathlib import Path
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from feedferry.pipelines.report.page_text import (
    MAX_ROWS,
    MAX_SAMPLES,
    bytes_text,
    short_text,
    span_text,
)
from feedferry.schemas.codes import find_code
from feedferry.schemas.printable import printable
from feedferry.transforms.access.verdicts import token_text
from feedferry.transforms.storage.atomic import write_whole


def render(template: str, **values: object) -> bytes:
    """Return a page as UTF-8."""
    text = _environment().get_template(template).render(values)
    # A character that UTF-8 cannot encode becomes a reference that a browser shows as U+FFFD.
    return text.encode("utf-8", "xmlcharrefreplace")


def write_page(path: Path, template: str, **values: object) -> None:
    """Render a template and write the page whole."""
    write_whole(path, render(template, **values), by_several=True)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
        # Every text is made visible; what a template marks as safe is left as it is.
        finalize=lambda value: printable(value, kept="\n\t") if type(value) is str else value,
    )
    environment.filters |= {
        "command": shlex.quote,
        "first": lambda values: list(islice(values, MAX_ROWS)),
        "link": lambda path: quote(path, errors="replace"),
        "minute": lambda at: f"{at.astimezone(UTC):%Y-%m-%d %H:%M}",
        "moment": lambda at: f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC",
        "number": "{:,}".format,
        "principal": token_text,
        "prose": _prose,
        "short": short_text,
        "size": bytes_text,
        "span": span_text,
    }
    environment.globals |= {
        "max_rows": MAX_ROWS,
        "max_samples": MAX_SAMPLES,
        "explained": find_code,
    }
    return environment


def _prose(text: str) -> Markup:
    """Return a text of the table of codes, whose only markup is `code`."""
    parts = enumerate(text.split("`"))
    return Markup("").join(
        Markup("<code>%s</code>") % part if at % 2 else escape(part) for at, part in parts
    )
