"""Columns as values of JSON: texts between the quotes, times, and contents in base64."""

from collections.abc import Iterable
from datetime import datetime

import msgspec
import pybase64

from feedferry.transforms.formats.fast_path.columns.cells import of_dates, unescaped
from feedferry.transforms.formats.fast_path.columns.column_kinds import Column


def json_texts(values: Column) -> Column:
    """Return texts as they are in JSON, between the quotes."""
    text = "<".join(values)  # a character that no escaped value has, and which JSON copies
    if text.count("&") != text.count("&amp;"):
        return [*map(in_quotes, unescaped(values))]
    return in_quotes(text).replace("&amp;", "&").split("<")


def in_quotes(value: str | datetime) -> str:
    """Return a text or a time as it is in JSON, between the quotes."""
    return msgspec.json.encode(value)[1:-1].decode()


json_dates = of_dates(in_quotes)


def json_times(times: Column) -> Column:
    """Return times as they are in JSON, between the quotes."""
    return [*map(in_quotes, times)]


def in_base64(documents: Iterable[bytes]) -> list[bytes]:
    """Return documents in base64, several times as fast as msgspec."""
    return [*map(pybase64.b64encode, documents)]
