"""The acl element of gsafeeds. An ACL that is not understood in full is refused.

**Spec:** Feeds Protocol Developer's Guide 7.x, "Per-URL ACLs".
"""

from collections.abc import Mapping
from typing import TypeVar

from lxml import etree

from schemas.acl import ACCESSES, SCOPES, Acl, Principal
from schemas.errors import RecordError
from schemas.record import Extra
from transforms.formats.acl_metadata import BLANKS, INHERITANCES, split_parent

SENSITIVITIES = {"everything-case-sensitive": True, "everything-case-insensitive": False}

Value = TypeVar("Value")
Attributes = dict[str, str]
Extras = list[Extra]


def read_acl(
    element: etree._Element, attributes: Attributes, extras: Extras, place: str, *, alone: bool
) -> Acl:
    kind = attributes.pop("inheritance-type", None)
    if kind is not None and kind not in INHERITANCES:
        raise bad_acl(f"inheritance-type={kind!r}; expected one of {', '.join(INHERITANCES)}")
    stated = attributes.pop("inherit-from", None)
    parent, fragment = (None, None) if stated is None else split_parent(stated)
    extras.extend(Extra(f"{place}/@{key}", value) for key, value in attributes.items())
    require_no_text(element)
    principals: list[Principal] = []
    for child in element:
        if child.tag != "principal":
            raise bad_acl(f"<{tag_of(child)}> inside <acl>; expected <principal>")
        principals.append(_principal(child, extras, f"{place}/principal[{len(principals)}]"))
    return Acl(
        inheritance=None if kind is None else INHERITANCES[kind],
        inherit_from=parent,
        inherit_fragment=fragment,
        principals=tuple(principals),
        alone=alone,
    )


def _principal(element: etree._Element, extras: Extras, place: str) -> Principal:
    if len(element):
        raise bad_acl(f"<{tag_of(element[0])}> inside <principal>; expected a name")
    attributes = dict(element.items())
    kind = attributes.pop("principal-type", None)
    if kind not in (None, "unqualified"):
        raise bad_acl(f"principal-type={kind!r}; expected unqualified")
    sensitivity = attributes.pop("case-sensitivity-type", None)
    principal = Principal(
        name=element.text or "",
        scope=_one_of("scope", attributes.pop("scope", None), SCOPES),
        access=_one_of("access", attributes.pop("access", None), ACCESSES),
        namespace=attributes.pop("namespace", None),
        case_sensitive=None
        if sensitivity is None
        else _one_of("case-sensitivity-type", sensitivity, SENSITIVITIES),
        unqualified=kind is not None,
    )
    extras.extend(Extra(f"{place}/@{key}", value) for key, value in attributes.items())
    return principal


def _one_of(name: str, value: str | None, values: Mapping[str, Value]) -> Value:
    if value is None or value not in values:
        found = f"no {name}" if value is None else f"{name}={value!r}"
        raise bad_acl(f"{found} of a principal; expected {' or '.join(values)}")
    return values[value]


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
