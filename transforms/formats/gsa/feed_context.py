"""Values that the records of a gsafeed inherit from its header and their group."""

import re
from functools import lru_cache
from typing import NamedTuple

from lxml import etree

from schemas.errors import RecordError
from schemas.record import Action, Extra
from schemas.span import ElementContext
from transforms.formats.gsa.acl import Attributes
from transforms.formats.xml.elements import parse_markup
from transforms.formats.xml.raw_element import NESTED

ACTIONS = {"add": Action.ADD, "delete": Action.DELETE}


class FeedContext(NamedTuple):
    """The header and the group of a record; `fault` describes a group that cannot be relied on."""

    datasource: str | None
    feedtype: str | None
    action: Action | None
    pagerank: str | None
    feedrank: str | None
    extras: tuple[Extra, ...]
    fault: str


@lru_cache(maxsize=64)
def feed_context(context: ElementContext) -> FeedContext:
    """Read the start tags and the header before an element."""
    datasource, feedtype = _header(context.header)
    attributes, fault = _group(context)
    action = attributes.pop("action", "add")
    if action not in ACTIONS:
        fault = f"a group with action={action!r}"
    return FeedContext(
        datasource=datasource,
        feedtype=feedtype,
        action=ACTIONS.get(action),
        pagerank=attributes.pop("pagerank", None),
        feedrank=attributes.pop("feedrank", None),
        extras=tuple(Extra(f"group/@{name}", value) for name, value in attributes.items()),
        fault=fault,
    )


@lru_cache(maxsize=4)
def _header(header: bytes) -> tuple[str | None, str | None]:
    """Return datasource and feedtype. An appliance takes both from the push, so they are optional.

    Both decide what records mean, so they are also searched in a header that is not well-formed.
    """
    if not header:
        return None, None
    try:
        element = parse_markup(header)
    except RecordError:
        return _search(header, "datasource"), _search(header, "feedtype")
    return _text(element, "datasource"), _text(element, "feedtype")


def _text(element: etree._Element, name: str) -> str | None:
    return (element.findtext(name) or "").strip() or None


def _search(header: bytes, name: str) -> str | None:
    value = re.search(rf"<{name}>\s*([\w-]+)\s*<".encode(), header)
    return value[1].decode() if value else None


def _group(context: ElementContext) -> tuple[Attributes, str]:
    if not context.group:
        return {}, ""
    if context.group == NESTED:
        return {}, "a group behind the end of a group inside it"
    try:
        return dict(parse_markup(context.group + b"</group>").items()), ""
    except RecordError:
        return {}, "a group whose tag cannot be read"
