"""Attributes and elements that no field of a record holds, as they were."""

from collections import defaultdict
from copy import deepcopy

from lxml import etree

from schemas.errors import RecordError
from schemas.record import Extra
from transforms.formats.xml.serializer import attributes

XML_NAMESPACE = "http://www.w3.org/XML/1998/namespace"


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


def extra_element(place: str, element: etree._Element) -> Extra:
    """Return an unknown element as its markup, with the prefixes that it uses and no others."""
    alone = deepcopy(element)
    etree.cleanup_namespaces(alone)
    return Extra(place, etree.tostring(alone, encoding="unicode", with_tail=False))
