"""Render pages: one HTML file without scripts and external resources.

All names, URLs and reasons in a page are untrusted and are shown as text: escaped, shortened, and
with visible control characters.
"""

import unicodedata
from collections.abc import Iterable
from datetime import UTC
from functools import cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from pipelines.cli.display import format_size
from schemas.run_record import RunRecord
from transforms.storage.atomic import write_by_several

if TYPE_CHECKING:
    from jinja2 import Environment

MAX_ROWS = 200
"""Most rows of a table."""

MAX_CHARS = 400
"""Most characters of a text that comes from the input."""

_KEPT = {"\n", "\t"}
_HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def write_page(path: Path, template: str, **values: object) -> None:
    """Render a template and write the page whole."""
    text = _environment().get_template(template).render(values)
    write_by_several(path, text.encode("utf-8", "xmlcharrefreplace"))


def visible_text(text: str) -> str:
    r"""Return a text whose control, format and unassigned characters are visible.

    >>> visible_text("a\x00b\u202ec")
    'a␀b\\u202ec'
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(map(_visible_character, text))


def span_text(seconds: float) -> str:
    """Return a rounded duration.

    >>> span_text(3725), span_text(12.34), span_text(0.034)
    ('1 h 2 min', '12.3 s', '0.03 s')
    """
    if seconds < 60:
        return f"{seconds:.3g} s" if seconds >= 1 else f"{seconds:.2f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def title_of(record: RunRecord | None, folder: Path) -> str:
    return record.job if record is not None and record.job is not None else folder.absolute().name


@cache
def _environment() -> "Environment":
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
        finalize=_finalize,
    )
    environment.filters |= {
        "first": _first,
        "link": lambda path: quote(path, errors="replace"),
        "moment": lambda at: at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC"),
        "number": "{:,}".format,
        "short": _short,
        "size": lambda count: format_size(count).replace(".0 ", " "),
        "span": span_text,
    }
    environment.globals |= {"max_rows": MAX_ROWS}
    return environment


def _finalize(value: object) -> object:
    """Make every text visible; text that a template marks as safe is left as it is."""
    return visible_text(value) if type(value) is str else value


def _first(values: Iterable[object]) -> list[object]:
    return list(islice(values, MAX_ROWS))


def _short(text: str) -> str:
    return text if len(text) <= MAX_CHARS else f"{text[:MAX_CHARS]} …"


def _visible_character(char: str) -> str:
    if char in _KEPT or unicodedata.category(char) not in _HIDDEN:
        return char
    code = ord(char)
    if code < 0x20:
        return chr(0x2400 + code)
    return "␡" if code == 0x7F else f"\\u{code:04x}"
