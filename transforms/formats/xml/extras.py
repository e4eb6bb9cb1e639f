"""What no field holds, as the attributes and elements that it was."""

from collections import defaultdict
from copy import deepcopy

from lxml import etree

from schemas.record import Extra
from transforms.formats.xml.serializer import attributes


class Extras:
    """Extras by the place of their element, ready to be written again."""

    def __init__(self, extras: tuple[Extra, ...]) -> None:
        self._attributes: dict[str, list[tuple[str, str]]] = defaultdict(list)
        self._markup: dict[str, list[str]] = defaultdict(list)
        for extra in extras:
            place, at, name = extra.place.partition("/@")
            if at:
                self._attributes[place].append((name, extra.value))
            else:
                self._markup[place.rpartition("/")[0]].append(extra.value + "\n")

    def __bool__(self) -> bool:
        return bool(self._attributes or self._markup)

    def attributes(self, place: str) -> str:
        """Return ` name="value"` for each unknown attribute of an element."""
        pairs = enumerate(self._attributes.get(place, ()))
        return "".join(_attribute(name, value, number) for number, (name, value) in pairs)

    def markup(self, place: str) -> str:
        """Return the unknown elements inside an element."""
        return "".join(self._markup.get(place, ()))


def extra_element(parent: str, element: etree._Element) -> Extra:
    """Return an unknown element as its markup, with the prefixes that it uses and no others."""
    place = f"{parent}/{etree.QName(element).localname}"
    alone = deepcopy(element)
    etree.cleanup_namespaces(alone)
    return Extra(place, etree.tostring(alone, encoding="unicode", with_tail=False))


def _attribute(name: str, value: str, number: int) -> str:
    uri, brace, local = name.removeprefix("{").rpartition("}")
    if not brace:
        return attributes([(name, value)])
    return attributes([(f"xmlns:n{number}", uri), (f"n{number}:{local}", value)])
