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

from msgspec.structs import replace

from feedferry.schemas.acl import ACCESSES, SCOPES, Access, Acl, Inheritance, Principal, Scope
from feedferry.schemas.errors import RecordError
from feedferry.transforms.sources.database.mapping.columns import (
    ColumnIndex,
    ColumnReference,
    LoadRows,
    Page,
    Row,
    ValueGetter,
    column_of,
    column_text,
    url_getter,
)
from feedferry.transforms.sources.database.mapping.row_mapping import ESCAPE, AclSource
from feedferry.transforms.sources.database.mapping.values import text_of

_LISTS = (
    ("users", Scope.USER, Access.PERMIT),
    ("groups", Scope.GROUP, Access.PERMIT),
    ("deny_users", Scope.USER, Access.DENY),
    ("deny_groups", Scope.GROUP, Access.DENY),
)

_Member = TypeVar("_Member", Scope, Access)
NamedPrincipals = Sequence[tuple[int, str]]
"""For each principal, the number of an entry and a name."""


class AclGetter:
    """Returns the ACL of a row; `entries` are the different principals of all rows without names.

    Raise ConfigError for a missing column. A call raises RecordError for values that are no
    principals.
    """

    def __init__(self, acl: AclSource, index: ColumnIndex, load_rows: LoadRows) -> None:
        self._acl = acl
        self.entries: list[Principal] = []
        self._numbers: dict[tuple[Scope, Access, str], int] = {}
        self._lists: list[Callable[[Row], NamedPrincipals]] = []
        if acl.query is None:
            for field, scope, access in _LISTS:
                if (column := getattr(acl, field)) is not None:
                    named = partial(self._in_list, column, self._number(scope, access))
                    self._lists.append(ValueGetter(index.at(f"acl: {field}", column), named))
        else:
            query, key_of = acl.query, index.key_getter()
            self._lists.append(lambda row: [*self._answered(load_rows(query, key_of(row)))])
        self._parent_of = _parent_getter(acl, index)
        inheritance = acl.inheritance and Inheritance[acl.inheritance.upper().replace("-", "_")]
        self._make = partial(Acl, inheritance=inheritance)

    def __call__(self, row: Row) -> Acl:
        named = [principal for get in self._lists for principal in get(row)]
        return self.acl(named, self._parent_of(row))

    def column(self, page: Page) -> Sequence[tuple[NamedPrincipals, str | None]]:
        """Return the principals and the parent of each row."""
        lists = [column_of(get, page) for get in self._lists]
        named = lists[0] if lists else [()] * len(page.rows)
        for more in lists[1:]:
            named = [[*before, *after] for before, after in zip(named, more, strict=True)]
        return [*zip(named, column_of(self._parent_of, page), strict=True)]

    def acl(self, principals: NamedPrincipals, parent: str | None) -> Acl:
        """Return an ACL of principals and a parent."""
        entries = self.entries
        named = [replace(entries[number], name=name) for number, name in principals]
        return self._make(principals=tuple(named), inherit_from=parent)

    def _in_list(self, column: str, number: int, value: object) -> NamedPrincipals:
        if value is None:
            return ()
        return [(number, name) for name in _split_value(column, value, self._acl.delimiter)]

    def _answered(self, answers: Sequence[Row]) -> Iterator[tuple[int, str]]:
        for answer in answers:
            if not 3 <= len(answer) <= 4:
                raise RecordError(
                    "bad-acl",
                    f"{len(answer)} columns after the key in the query for ACLs; expected name, "
                    "scope, access and optionally namespace",
                )
            name, scope, access, *namespace = [(text_of(value) or "").strip() for value in answer]
            if name:
                number = self._number(
                    _member(SCOPES, "scope", scope),
                    _member(ACCESSES, "access", access),
                    *namespace,
                )
                yield number, name

    def _number(self, scope: Scope, access: Access, namespace: str = "") -> int:
        """Return the number of an entry."""
        key = scope, access, namespace
        if key not in self._numbers:
            self._numbers[key] = len(self.entries)
            entry = Principal(
                name="",
                scope=scope,
                access=access,
                namespace=namespace or self._acl.namespace,
                case_sensitive=self._acl.case_sensitive,
            )
            self.entries.append(entry)
        return self._numbers[key]


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


def _parent_getter(acl: AclSource, index: ColumnIndex) -> Callable[[Row], str | None]:
    """Return the function that returns the URL of the parent; NULL in a column is no parent."""
    setting = "acl: inherit_from"
    if acl.inherit_from is None:
        return lambda _row: None
    if isinstance(acl.inherit_from, ColumnReference):
        name = acl.inherit_from.column
        return ValueGetter(
            index.at(setting, name), lambda value: (column_text(name, value) or "").strip() or None
        )
    return url_getter(setting, acl.inherit_from, index)


def _member(members: Mapping[str, _Member], word: str, text: str) -> _Member:
    member = members.get(text.lower())
    if member is None:
        expected = " or ".join(members)
        raise RecordError("bad-acl", f"{word} {text!r} of a principal; expected {expected}")
    return member
