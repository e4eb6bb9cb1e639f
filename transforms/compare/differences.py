"""The differences of two documents, field by field.

Fields have the names that `docs/losses.md` uses. A metadata name is a field of its own
(`metadata:NAME`), and so is a named field (`field:NAME`); the order of different names does not
matter. Contents are compared by their size and SHA-256, decoded.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache

import msgspec

from feedferry.schemas.acl import Access, Acl, Inheritance, Principal, identity
from feedferry.schemas.membership import Member
from feedferry.schemas.record import Crawl, Record
from feedferry.transforms.compare.history import Document
from feedferry.transforms.formats.holding.acl_metadata import parent_of

ACL = "acl"
CONTENT = "content"
MEMBERS = "members"
DATASOURCE = "datasource"
STATUS = "status"
"""The answer of a target in place of a document."""

_GROUPED = ("url", "action", "provenance", "acl", "crawl", "metadata", "fields", "content", "body")
_PLAIN = tuple(name for name in Record.__struct_fields__ if name not in (*_GROUPED, "size"))
_DIGEST_DIGITS = 12
_encode = msgspec.json.Encoder(order="sorted").encode


class FieldChange(msgspec.Struct, frozen=True, kw_only=True):
    """A field that differs: its values as JSON, None where it is not stated."""

    field: str
    before: str | None
    after: str | None

    @property
    def text(self) -> str:
        return f"{self.field}: {self.before or '-'} → {self.after or '-'}"


def without_answer(fault: str, name: str = STATUS) -> FieldChange:
    """Return the difference of a document whose target gave no clear answer."""
    return FieldChange(field=name, before=fault, after=None)


@lru_cache(maxsize=4096)
def _is_ignored(field: str, patterns: frozenset[str]) -> bool:
    return any(fnmatchcase(field, pattern) for pattern in patterns)


def changes(
    before: Document,
    after: Document,
    *,
    ignored: frozenset[str] = frozenset(),
    only: frozenset[str] | None = None,
) -> tuple[FieldChange, ...]:
    """Return the fields that differ, the ACL first; `only` are those that both can state.

    `ignored` are names, and patterns such as `metadata:x-*`.
    """
    old_parts, new_parts = (
        (document.record, document.digest, document.membership) for document in (before, after)
    )
    if old_parts == new_parts:
        return ()
    old, new = fields_of(before), fields_of(after)
    if old.get(DATASOURCE) is None or new.get(DATASOURCE) is None:
        old.pop(DATASOURCE, None)
        new.pop(DATASOURCE, None)
    names = [name for name in sorted({*old, *new}, key=_rank) if old.get(name) != new.get(name)]
    return tuple(
        FieldChange(field=name, before=_text(old.get(name)), after=_text(new.get(name)))
        for name in names
        if not _is_ignored(name, ignored) and (only is None or name.partition(":")[0] in only)
    )


def fields_of(document: Document) -> dict[str, object]:
    """Return the fields that a document states, by name."""
    fields: dict[str, object] = {}
    if document.datasource is not None:
        fields[DATASOURCE] = document.datasource
    if document.digest is not None:
        fields[CONTENT] = f"{document.size} bytes, {document.digest.hex()[:_DIGEST_DIGITS]}…"
    if document.membership is not None:
        fields[MEMBERS] = sorted(map(_principal, document.membership.members))
    if document.record is not None:
        fields |= {
            name: value for name, value in _fields_of(document.record) if value not in (None, ())
        }
    return fields


def _fields_of(record: Record) -> Iterator[tuple[str, object]]:
    for name in _PLAIN:
        yield name, getattr(record, name)
    yield ACL, None if record.acl is None else _acl(record.acl)
    values: dict[str, list[object]] = {}
    for meta in record.metadata:
        values.setdefault(f"metadata:{meta.name}", []).append(meta.data or meta.value)
    for field in record.fields:
        values.setdefault(f"field:{field.name}", []).extend(field.values)
    yield from values.items()
    if record.crawl is not None:
        for name in Crawl.__struct_fields__:
            yield name, getattr(record.crawl, name)


def _acl(acl: Acl) -> Mapping[str, object]:
    """Return an ACL in a form that does not depend on the order of its principals."""
    inheritance = acl.inheritance
    found: dict[str, Sequence[object]] = {**_entries(acl.principals)}
    stated = inheritance if inheritance is not Inheritance.LEAF_NODE else None
    found["inherit"] = [parent_of(acl) or "", stated.value.lower() if stated else ""]
    found["decision"] = [
        {"part": layer.part + 1, **_entries(layer.principals)} for layer in acl.decision
    ]
    return {name: value for name, value in found.items() if any(value)}


def _entries(principals: Iterable[Principal]) -> dict[str, list[str]]:
    """Return the names that are permitted and denied, each sorted."""
    stated = [*principals]
    return {
        access.value.lower(): sorted(map(_principal, entries))
        for access in Access
        if (entries := [principal for principal in stated if principal.access is access])
    }


def _principal(principal: Principal | Member) -> str:
    name = ":".join(identity(principal.namespace, principal.name))
    words = [principal.scope.value.lower(), name]
    if principal.case_sensitive is False:
        words.append("case-insensitive")
    if principal.unqualified:
        words.append("unqualified")
    return " ".join(words)


def _rank(name: str) -> tuple[int, str]:
    return [ACL, MEMBERS, CONTENT, name].index(name), name


def _text(value: object) -> str | None:
    return None if value is None else _encode(value).decode()
