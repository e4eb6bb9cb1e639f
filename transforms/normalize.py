"""Records as every target may rely on them; nothing that a rule here changes has a meaning.

**Keeps:** everything else, also what looks wrong: that is for the adapter of a target, or its user.
**Drops:** white space around urls, types and principals; principals without a name, which the
appliance skips (guide 7.x, "Example Feed with an acl Element"). An ACL that had no others is
left with none: it permits nobody. Metadata named `google:acl*` becomes the ACL that an appliance
makes of it, whatever the source, unless the record has an ACL.
"""

from functools import lru_cache

from msgspec.structs import replace

from schemas.acl import Acl, Principal
from schemas.record import Record
from transforms.formats.gsa.legacy_acl import acl_of

_BLANKS = " \t\r\n"


def normalize(record: Record) -> Record:
    """Return the record by all rules: itself where they change nothing, as they do the second time.

    >>> from schemas.record import Action
    >>> normalize(Record(url=" http://www.example.com/ ", action=Action.ADD)).url
    'http://www.example.com/'
    """
    url = _url(record.url)
    mimetype = _mimetype(record.mimetype)
    charset = _stated(record.charset)
    stated, metadata = record.acl, record.metadata
    if stated is None and metadata:
        stated, metadata = acl_of(metadata)
    acl = _acl(stated)
    if (
        acl is record.acl
        and url == record.url
        and mimetype == record.mimetype
        and charset == record.charset
    ):
        return record
    return replace(record, url=url, mimetype=mimetype, charset=charset, acl=acl, metadata=metadata)


def _url(stated: str) -> str:
    """The url without white space around it. A doc id, which has no scheme, is all of itself."""
    return stated.strip(_BLANKS) if "://" in stated else stated


@lru_cache(maxsize=64)
def _mimetype(stated: str | None) -> str | None:
    """The type in small letters, as it has no case; a parameter such as a boundary may have one."""
    if stated is None:
        return None
    if stated.islower() and ";" not in stated and not stated[0].isspace():
        return stated.rstrip(_BLANKS)
    kind, semicolon, parameters = stated.partition(";")
    return _stated(kind.strip(_BLANKS).lower() + semicolon + parameters)


def _stated(text: str | None) -> str | None:
    """The text without white space around it; an empty attribute states nothing."""
    return None if text is None else text.strip(_BLANKS) or None


def _acl(acl: Acl | None) -> Acl | None:
    if acl is None:
        return None
    parent = acl.inherit_from and _url(acl.inherit_from)
    principals = tuple(map(_principal, filter(_is_named, acl.principals)))
    if parent == acl.inherit_from and principals == acl.principals:
        return acl
    return replace(acl, inherit_from=parent, principals=principals)


def _is_named(principal: Principal) -> bool:
    return principal.name.strip(_BLANKS) != ""


def _principal(principal: Principal) -> Principal:
    name = principal.name.strip(_BLANKS)
    return principal if name == principal.name else replace(principal, name=name)
