"""Write markup: escapes, checks whether XML can hold a text, and extras as they were."""

from collections import defaultdict
from collections.abc import Iterable
from copy import deepcopy
from functools import lru_cache

from lxml import etree

from feedferry.schemas.errors import RecordError
from feedferry.schemas.record import Extra
from feedferry.transforms.formats.text.xml_text import (
    escape_attribute,
    escape_text,
    holds,
    is_plain,
)
from feedferry.transforms.formats.xml.rows import ElementRows

XML_NAMESPACE = "http://www.w3.org/XML/1998/namespace"


def shut_parser(*, huge_tree: bool = False) -> etree.XMLParser:
    """Return a parser without entities and network access; for small documents by default."""
    return etree.XMLParser(
        huge_tree=huge_tree,
        collect_ids=False,
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        remove_comments=True,
        remove_pis=True,
    )


def not_xml(exc: ValueError) -> RecordError:
    """Return the error for a text that XML or UTF-8 cannot hold."""
    found = "a lone surrogate" if isinstance(exc, UnicodeError) else str(exc)
    return RecordError("not-xml", f"{found}; expected characters that XML can hold")


def attributes(pairs: Iterable[tuple[str, str | None]]) -> str:
    """Return ` name="value"` for each pair that has a value, in order.

    Raises ValueError, with the pair for a message, for a value that XML cannot hold.
    """
    return _stated_attributes([(name, value) for name, value in pairs if value is not None])


def attributes_of(rows: ElementRows, source: object) -> str:
    """Return the attributes of a record or a struct by the rows of its element."""
    rows = rows.stated_by(source)
    return _stated_attributes(rows.pairs(rows.values(source)))


@lru_cache(maxsize=1024)
def similar_attributes(rows: ElementRows, values: tuple[object, ...]) -> str:
    """Return the attributes with these values, of which most documents have a few only."""
    return _stated_attributes(rows.pairs(values))


def _stated_attributes(stated: list[tuple[str, str]]) -> str:
    text = "".join([value for _, value in stated])
    if is_plain(text):
        return "".join([f' {name}="{value}"' for name, value in stated])
    if is_plain(text.replace("&", "")):  # as in most urls with a query
        return "".join([f' {name}="{value.replace("&", "&amp;")}"' for name, value in stated])
    return "".join([f' {name}="{_escaped(name, value)}"' for name, value in stated])


def _escaped(name: str, value: str) -> str:
    if not holds(value):
        raise ValueError(f"{name}={value!r}")
    return escape_attribute(value)


def element(name: str, text: str, attrs: str = "") -> str:
    """Return an element with character data; `attrs` comes from `attributes`."""
    return f"<{name}{attrs}>{escape_text(text)}</{name}>"


class ExtraMarkup:
    """Extras as markup, by the place of the element that they belong to."""

    def __init__(self, extras: tuple[Extra, ...]) -> None:
        self._attributes: dict[str, list[tuple[str, str, int]]] = defaultdict(list)
        self._markup: dict[str, list[str]] = defaultdict(list)
        for number, extra in enumerate(extras):
            place, at, name = extra.place.partition("/@")
            if at:
                self._attributes[place].append((name, extra.value, number))
            elif "@" not in place:
                self._markup[place.rpartition("/")[0]].append(extra.value + "\n")

    def __bool__(self) -> bool:
        return bool(self._attributes or self._markup)

    def attributes(self, place: str, *, stated: str = "") -> str:
        """Return the attributes `stated` of an element, and its unknown ones after them.

        Raises RecordError for an attribute that would occur twice: that is no XML.
        """
        for name, value, number in self._attributes.get(place, ()):
            if f' {name}="' in stated:
                reason = f"a second {name} at {place}/@{name}; expected one value"
                raise RecordError("bad-extra", reason)
            uri, _, local = name.removeprefix("{").rpartition("}")
            if uri == XML_NAMESPACE:
                stated += attributes([(f"xml:{local}", value)])
            elif uri:
                stated += attributes([(f"xmlns:n{number}", uri), (f"n{number}:{local}", value)])
            else:
                stated += attributes([(name, value)])
        return stated

    def children(self, place: str) -> str:
        """Return the unknown elements inside an element."""
        return "".join(self._markup.get(place, ()))


NO_EXTRAS = ExtraMarkup(())


def extra_element(place: str, element: etree._Element) -> Extra:
    """Return an unknown element as its markup, with the prefixes that it uses and no others."""
    alone = deepcopy(element)
    etree.cleanup_namespaces(alone)
    return Extra(place, etree.tostring(alone, encoding="unicode", with_tail=False))
