"""What the records of a gsafeed inherit from its header and their group."""

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
    """What a record inherits from its feed and its group; `doubt` tells what is wrong there."""

    datasource: str | None
    feedtype: str | None
    action: Action | None
    pagerank: str | None
    feedrank: str | None
    unknown: tuple[Extra, ...]
    doubt: str


@lru_cache(maxsize=64)
def feed_context(context: ElementContext) -> FeedContext:
    """What the context of a unit says of its record."""
    datasource, feedtype = _header(context.header)
    attributes, doubt = _group(context)
    action = attributes.pop("action", "add")
    if action not in ACTIONS:
        doubt = f"a group with action={action!r}"
    return FeedContext(
        datasource=datasource,
        feedtype=feedtype,
        action=ACTIONS.get(action),
        pagerank=attributes.pop("pagerank", None),
        feedrank=attributes.pop("feedrank", None),
        unknown=tuple(Extra(f"group/@{name}", value) for name, value in attributes.items()),
        doubt=doubt,
    )


@lru_cache(maxsize=4)
def _header(header: bytes) -> tuple[str | None, str | None]:
    """Datasource and feedtype; an appliance takes both from the push, so they may be missing."""
    if not header:
        return None, None
    try:
        element = parse_markup(header)
    except RecordError:  # both decide over what records mean, so they are taken where they show
        return _salvage(header, "datasource"), _salvage(header, "feedtype")
    return _text(element, "datasource"), _text(element, "feedtype")


def _text(element: etree._Element, name: str) -> str | None:
    return (element.findtext(name) or "").strip() or None


def _salvage(header: bytes, name: str) -> str | None:
    found = re.search(rf"<{name}>\s*([\w-]+)\s*<".encode(), header)
    return found[1].decode() if found else None


def _group(context: ElementContext) -> tuple[Attributes, str]:
    if not context.group:
        return {}, ""
    if context.group == NESTED:
        return {}, "a group behind the end of a group inside it"
    try:
        return dict(parse_markup(context.group + b"</group>").items()), ""
    except RecordError:
        return {}, "a group whose tag cannot be read"
