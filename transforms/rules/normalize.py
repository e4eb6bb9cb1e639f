"""Bring records into the form that all targets rely on, without a change of meaning.

**Keeps:** everything else, also values that look wrong: the adapter of a target decides on these.
**Drops:** white space around urls, types and principals; principals without a name, which the
appliance skips (guide 7.x, "Example Feed with an acl Element"). An ACL that had no others is left
without principals: it permits no user. Metadata named `google:acl*` becomes the ACL that an
appliance makes of it, from any source, unless the record has an ACL.
"""

from functools import lru_cache

from msgspec.structs import replace

from feedferry.schemas.acl import Acl, Principal
from feedferry.schemas.record import Record
from feedferry.transforms.formats.holding.acl_metadata import acl_of

_BLANKS = " \t\r\n"


def normalize(record: Record) -> Record:
    """Return the record with all rules applied; a second application changes nothing.

    >>> from feedferry.schemas.record import Action
    >>> normalize(Record(url=" http://www.example.com/ ", action=Action.ADD)).url
    'http://www.example.com/'
    """
    url = _url(record.url)
    mimetype = _mimetype(record.mimetype)
    charset = None if record.charset is None else _stated(record.charset)
    stated, metadata = record.acl, record.metadata
    if stated is None and metadata:
        stated, metadata = acl_of(metadata)
    acl = None if stated is None else _acl(stated)
    if (
        acl is record.acl
        and url == record.url
        and mimetype == record.mimetype
        and charset == record.charset
    ):
        return record
    return replace(record, url=url, mimetype=mimetype, charset=charset, acl=acl, metadata=metadata)


def _url(stated: str) -> str:
    """Strip a url. A document id, which has no scheme, keeps its white space."""
    return stated.strip(_BLANKS) if "://" in stated else stated


@lru_cache(maxsize=64)
def _mimetype(stated: str | None) -> str | None:
    """Return the type in lower case; a parameter such as a boundary keeps its case."""
    if stated is None:
        return None
    kind, semicolon, parameters = stated.partition(";")
    return _stated(kind.strip(_BLANKS).lower() + semicolon + parameters)


def _stated(text: str) -> str | None:
    """Strip a text; an empty attribute states nothing."""
    return text.strip(_BLANKS) or None


def _acl(acl: Acl) -> Acl:
    parent = acl.inherit_from and _url(acl.inherit_from)
    principals = tuple(
        _principal(principal) for principal in acl.principals if principal.name.strip(_BLANKS)
    )
    if parent == acl.inherit_from and principals == acl.principals:
        return acl
    return replace(acl, inherit_from=parent, principals=principals)


def _principal(principal: Principal) -> Principal:
    name = principal.name.strip(_BLANKS)
    return principal if name == principal.name else replace(principal, name=name)
