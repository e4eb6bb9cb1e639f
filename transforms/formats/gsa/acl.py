"""The acl element of gsafeeds. An ACL that is not understood in full is refused.

**Spec:** Feeds Protocol Developer's Guide 7.x, "Per-URL ACLs".
"""

from lxml import etree

from feedferry.schemas.acl import Acl, Principal
from feedferry.schemas.errors import RecordError
from feedferry.schemas.membership import Member
from feedferry.schemas.record import Extra
from feedferry.transforms.formats.gsa.rows import ACL, ACL_ALONE, PRINCIPAL
from feedferry.transforms.formats.holding.acl_metadata import BLANKS, split_parent
from feedferry.transforms.formats.text.xml_text import holds
from feedferry.transforms.formats.xml.rows import ElementRows
from feedferry.transforms.formats.xml.serializer import ExtraMarkup, element, similar_attributes

Extras = list[Extra]


def read_acl(element: etree._Element, extras: Extras, *, alone: bool = False) -> Acl:
    rows = ACL_ALONE if alone else ACL
    values = rows.take(element.items(), extras)
    values.pop("url", None)
    stated = values.pop("inherit_from", None)
    parent, fragment = (None, None) if stated is None else split_parent(stated)
    require_no_text(element)
    principals: list[Principal] = []
    for child in element:
        if child.tag != "principal":
            raise bad_acl(f"<{tag_of(child)}> inside <acl>; expected <principal>")
        principals.append(_principal(child, extras, f"{rows.place}/principal[{len(principals)}]"))
    return Acl(
        inherit_from=parent,
        inherit_fragment=fragment,
        principals=tuple(principals),
        alone=alone,
        **values,
    )


def _principal(element: etree._Element, extras: Extras, place: str) -> Principal:
    if len(element):
        raise bad_acl(f"<{tag_of(element[0])}> inside <principal>; expected a name")
    values = PRINCIPAL.take(element.items(), extras, place=place)
    return Principal(name=element.text or "", **values)


def write_principal(
    rows: ElementRows, principal: Principal | Member, extras: ExtraMarkup, place: str
) -> str:
    """Return the element; values that are not stated are left to the defaults of the DTD."""
    if not holds(principal.name):
        raise ValueError(f"principal {principal.name!r}")
    name = principal.name.strip(BLANKS) if isinstance(principal, Member) else principal.name
    stated = similar_attributes(rows, rows.values(principal))
    return element("principal", name, extras.attributes(place, stated=stated)) + "\n"


def bad_acl(reason: str) -> RecordError:
    return RecordError("bad-acl", reason)


def require_no_text(element: etree._Element) -> None:
    """Raise RecordError for text between elements: a tag may have lost its `<`."""
    texts = [element.text, *[child.tail for child in element]]
    if any([text and text.strip(BLANKS) for text in texts]):  # noqa: C419 - faster as a list
        reason = f"text inside <{tag_of(element)}>; expected elements only"
        raise RecordError("stray-text", reason)


def tag_of(element: etree._Element) -> str:
    return etree.QName(element).localname
