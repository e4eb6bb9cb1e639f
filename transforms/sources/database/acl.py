r"""Who may see the document of a row: columns that list principals, or a query of its own.

A list is parted by its delimiter, `\` before one makes it a part of a name; any other `\` stays,
as in `CORP\anna`. Blanks around names are not theirs. Each value of an array is one name.

**Spec:** Feeds Protocol Developer's Guide 7.x, "Per-URL ACLs and ACL Inheritance".
We give each document an ACL, even if no column and no row names a principal: it permits nobody
then, where no ACL at all would make it public. The deployed database adaptor does so, too.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TypeVar

from schemas.acl import Access, Acl, Inheritance, Principal, Scope
from schemas.errors import RecordError
from transforms.sources.database.column_index import Row, Rows, Sides, column_text, text_maker
from transforms.sources.database.mapping import AclFrom
from transforms.sources.database.url_templates import url_maker
from transforms.sources.database.values import many_of, text_of

INHERITANCES = {kind.value.lower().replace("_", "-"): kind for kind in Inheritance}
ESCAPE = "\\"

_SCOPES = {scope.value.lower(): scope for scope in Scope}
_ACCESSES = {access.value.lower(): access for access in Access}
_LISTS = (
    ("users", Scope.USER, Access.PERMIT),
    ("groups", Scope.GROUP, Access.PERMIT),
    ("deny_users", Scope.USER, Access.DENY),
    ("deny_groups", Scope.GROUP, Access.DENY),
)

_Member = TypeVar("_Member", Scope, Access)
_Principals = Callable[[Row], tuple[Principal, ...]]


def acl_maker(acl: AclFrom, rows: Rows, sides: Sides) -> Callable[[Row], Acl]:
    """Return the function that gives the ACL of a row; raise ConfigError if it lacks a column.

    The function raises RecordError where the row or the query says what no ACL can.
    """
    principals_of = _asked(acl, rows, sides) if acl.query else _listed(acl, rows)
    parent_of = _parent_maker(acl, rows)
    inheritance = None if acl.inheritance is None else INHERITANCES[acl.inheritance]

    def make(row: Row) -> Acl:
        principals = principals_of(row)
        parent = parent_of(row)
        return Acl(inheritance=inheritance, inherit_from=parent, principals=principals)

    return make


def acl_columns(acl: AclFrom) -> tuple[str, ...]:
    """Return the columns that an ACL is made of and nothing else."""
    listed = (getattr(acl, field) for field, _, _ in _LISTS)
    return tuple(name for name in (*listed, acl.inherit_from_column) if name is not None)


def split_principals(text: str, delimiter: str) -> list[str]:
    r"""Return the names in a list, in its order, without those that are empty.

    >>> split_principals(r"anna, Smith\, Tim,,CORP\ben", ",")
    ['anna', 'Smith, Tim', 'CORP\\ben']
    """
    if ESCAPE + delimiter not in text:
        names = text.split(delimiter)
    else:
        parted = re.split(rf"(?<!\\){re.escape(delimiter)}", text)
        names = [name.replace(ESCAPE + delimiter, delimiter) for name in parted]
    return [bare for name in names if (bare := name.strip())]


def _listed(acl: AclFrom, rows: Rows) -> _Principals:
    columns = tuple(
        (rows.at(f"acl: {field}", name), name, partial(_principal, acl, scope, access))
        for field, scope, access in _LISTS
        if (name := getattr(acl, field)) is not None
    )

    def make(row: Row) -> tuple[Principal, ...]:
        found: list[Principal] = []
        for at, name, named in columns:
            value = row[at]
            if value is not None:
                found.extend(map(named, _names(name, value, acl.delimiter)))
        return tuple(found)

    return make


def _names(column: str, value: object, delimiter: str) -> list[str]:
    value = _of_json(value) if isinstance(value, str) else value
    many = many_of(value)
    if many is not None:
        texts = (column_text(column, one) or "" for one in many)
        return [bare for text in texts if (bare := text.strip())]
    if isinstance(value, Mapping):
        raise RecordError(
            "bad-acl", f"{column}: JSON of keys and values; expected a list of principals"
        )
    return split_principals(column_text(column, value) or "", delimiter)


def _of_json(text: str) -> object:
    """What a text that is JSON of names holds: JSON columns are texts, as the database has them."""
    if text.strip()[:1] in ("[", "{"):
        with suppress(ValueError, RecursionError):
            return json.loads(text)
    return text


def _principal(acl: AclFrom, scope: Scope, access: Access, name: str) -> Principal:
    return Principal(
        name=name,
        scope=scope,
        access=access,
        namespace=acl.namespace,
        case_sensitive=acl.case_sensitive,
    )


def _asked(acl: AclFrom, rows: Rows, sides: Sides) -> _Principals:
    query, key_of = acl.query or "", rows.key_maker()
    return lambda row: tuple(_answered(acl, sides(query, key_of(row))))


def _answered(acl: AclFrom, answers: Sequence[Row]) -> Iterator[Principal]:
    for answer in answers:
        name, scope, access, namespace = _fields(answer)
        if name:
            yield Principal(
                name=name,
                scope=_one_of(_SCOPES, "scope", scope),
                access=_one_of(_ACCESSES, "access", access),
                namespace=namespace or acl.namespace,
                case_sensitive=acl.case_sensitive,
            )


def _fields(answer: Row) -> list[str]:
    """Name, scope, access and namespace of a row of the query, each bare."""
    if not 3 <= len(answer) <= 4:
        raise RecordError(
            "bad-acl",
            f"{len(answer)} columns behind the key, of the query for ACLs; expected name, scope, "
            "access and perhaps namespace",
        )
    texts = [(text_of(value) or "").strip() for value in answer]
    return texts if len(texts) == 4 else [*texts, ""]


def _one_of(members: Mapping[str, _Member], word: str, said: str) -> _Member:
    member = members.get(said.lower())
    if member is None:
        expected = " or ".join(members)
        raise RecordError("bad-acl", f"{word} {said!r} of a principal; expected {expected}")
    return member


def _parent_maker(acl: AclFrom, rows: Rows) -> Callable[[Row], str | None]:
    key = "acl: inherit_from"
    if acl.inherit_from is not None:
        return url_maker(key, acl.inherit_from, rows)
    if acl.inherit_from_column is None:
        return lambda row: None
    text = text_maker(key, acl.inherit_from_column, rows)
    return lambda row: (text(row) or "").strip() or None
