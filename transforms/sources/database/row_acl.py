r"""ACLs of rows, from columns that list principals or from a lookup query.

A list is split at its delimiter. `\` before a delimiter makes it a part of a name; any other `\` is
kept, as in `CORP\anna`. Blanks around names are removed. Each item of an array is one name.

**Spec:** Feeds Protocol Developer's Guide 7.x, "Per-URL ACLs and ACL Inheritance".
Each document gets an ACL, even if no column and no row names a principal: an ACL without principals
permits no user, while a document without an ACL is public. The deployed database adaptor does this,
too.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TypeVar

from schemas.acl import ACCESSES, SCOPES, Access, Acl, Inheritance, Principal, Scope
from schemas.errors import RecordError
from transforms.sources.database.columns import (
    ColumnIndex,
    ColumnReference,
    LoadRows,
    Row,
    column_text,
    url_getter,
)
from transforms.sources.database.mapping import ESCAPE, AclSource
from transforms.sources.database.values import text_of

_LISTS = (
    ("users", Scope.USER, Access.PERMIT),
    ("groups", Scope.GROUP, Access.PERMIT),
    ("deny_users", Scope.USER, Access.DENY),
    ("deny_groups", Scope.GROUP, Access.DENY),
)

_Member = TypeVar("_Member", Scope, Access)
_Principals = Callable[[Row], tuple[Principal, ...]]


def acl_getter(acl: AclSource, index: ColumnIndex, load_rows: LoadRows) -> Callable[[Row], Acl]:
    """Return the function that returns the ACL of a row; raise ConfigError for a missing column.

    The function raises RecordError for values that are no principals.
    """
    if acl.query is None:
        principals_of = _principals_in_columns(acl, index)
    else:
        principals_of = _principals_of_query(acl, acl.query, index, load_rows)
    parent_of = _parent_getter(acl, index)
    inheritance = acl.inheritance and Inheritance[acl.inheritance.upper().replace("-", "_")]
    return lambda row: Acl(
        principals=principals_of(row), inherit_from=parent_of(row), inheritance=inheritance
    )


def split_principals(text: str, delimiter: str) -> list[str]:
    r"""Return the names of a list in order, without empty names.

    >>> split_principals(r"anna, Smith\, Tim,,CORP\ben", ",")
    ['anna', 'Smith, Tim', 'CORP\\ben']
    """
    if ESCAPE + delimiter not in text:
        names = text.split(delimiter)
    else:
        parts = re.split(rf"(?<!\\){re.escape(delimiter)}", text)
        names = [part.replace(ESCAPE + delimiter, delimiter) for part in parts]
    return [stripped for name in names if (stripped := name.strip())]


def _principals_in_columns(acl: AclSource, index: ColumnIndex) -> _Principals:
    columns = tuple(
        (index.at(f"acl: {field}", name), name, partial(_principal, acl, scope, access))
        for field, scope, access in _LISTS
        if (name := getattr(acl, field)) is not None
    )

    def get(row: Row) -> tuple[Principal, ...]:
        principals: list[Principal] = []
        for at, name, principal in columns:
            if row[at] is not None:
                principals.extend(map(principal, _split_value(name, row[at], acl.delimiter)))
        return tuple(principals)

    return get


def _split_value(column: str, value: object, delimiter: str) -> list[str]:
    if isinstance(value, str) and value.lstrip()[:1] in ("[", "{"):  # JSON columns are texts
        with suppress(ValueError, RecursionError):
            value = json.loads(value)
    if isinstance(value, list | tuple):
        texts = (column_text(column, item) or "" for item in value)
        return [stripped for text in texts if (stripped := text.strip())]
    if isinstance(value, Mapping):
        raise RecordError(
            "bad-acl", f"{column}: JSON of keys and values; expected a list of principals"
        )
    return split_principals(column_text(column, value) or "", delimiter)


def _principal(
    acl: AclSource, scope: Scope, access: Access, name: str, namespace: str = ""
) -> Principal:
    return Principal(
        name=name,
        scope=scope,
        access=access,
        namespace=namespace or acl.namespace,
        case_sensitive=acl.case_sensitive,
    )


def _principals_of_query(
    acl: AclSource, query: str, index: ColumnIndex, load_rows: LoadRows
) -> _Principals:
    key_of = index.key_getter()
    return lambda row: tuple(_read_answers(acl, load_rows(query, key_of(row))))


def _parent_getter(acl: AclSource, index: ColumnIndex) -> Callable[[Row], str | None]:
    """Return the function that returns the URL of the parent; NULL in a column is no parent."""
    setting = "acl: inherit_from"
    if acl.inherit_from is None:
        return lambda _row: None
    if isinstance(acl.inherit_from, ColumnReference):
        text = index.text_getter(setting, acl.inherit_from.column)
        return lambda row: (text(row) or "").strip() or None
    return url_getter(setting, acl.inherit_from, index)


def _read_answers(acl: AclSource, answers: Sequence[Row]) -> Iterator[Principal]:
    for answer in answers:
        if not 3 <= len(answer) <= 4:
            raise RecordError(
                "bad-acl",
                f"{len(answer)} columns after the key in the query for ACLs; expected name, scope, "
                "access and optionally namespace",
            )
        name, scope, access, *namespace = [(text_of(value) or "").strip() for value in answer]
        if name:
            yield _principal(
                acl,
                _member(SCOPES, "scope", scope),
                _member(ACCESSES, "access", access),
                name,
                *namespace,
            )


def _member(members: Mapping[str, _Member], word: str, text: str) -> _Member:
    member = members.get(text.lower())
    if member is None:
        expected = " or ".join(members)
        raise RecordError("bad-acl", f"{word} {text!r} of a principal; expected {expected}")
    return member
