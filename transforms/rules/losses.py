"""The losses of a conversion, from the declarations of the formats of both ends."""

import enum
from collections.abc import Callable, Iterator, Mapping

import msgspec

from feedferry.schemas.errors import ConfigError
from feedferry.schemas.notice import REFUSED
from feedferry.schemas.record import Action, Crawl, Record
from feedferry.schemas.setting import in_flags
from feedferry.transforms.formats import by_name, find_format, format_of
from feedferry.transforms.formats.base import EVERYTHING, FIELDS, Holds, Kind, KindRefusal, Target
from feedferry.transforms.formats.holding.refusals import refusal_of

_ORDER = (*Record.__struct_fields__, *Crawl.__struct_fields__)
_SHOWN = FIELDS - {"arrival", "content", "provenance"} | {"extras"}
_FIELDS = tuple(name for name in _ORDER if name in _SHOWN)
_PROTECTION = {"secure", "authmethod"}
_TEXTS = ("title", "description", "keywords", "categories")
_DOCUMENTS = {Kind.CONTENT, Kind.TEXT, Kind.CRAWLED}
_HAS_KIND: Mapping[Kind, Callable[[Holds], bool]] = {
    Kind.CONTENT: lambda holds: "content" in holds.fields,
    Kind.TEXT: lambda holds: "body" in holds.fields,
    Kind.UNTYPED: lambda holds: {"content", "mimetype"} <= holds.fields,
    Kind.CRAWLED: lambda holds: "arrival" in holds.fields,
    Kind.DOCUMENT_ID: lambda holds: bool(holds.actions) and not holds.absolute_urls,
    Kind.UPDATE: lambda holds: Action.UPDATE in holds.actions and "metadata" in holds.fields,
    Kind.UPDATE_OF_FIELDS: lambda holds: Action.UPDATE in holds.actions,
    Kind.DELETION: lambda holds: Action.DELETE in holds.actions,
    Kind.PATTERN: lambda holds: Action.DELETE_PATTERN in holds.actions,
    Kind.WIDE: lambda holds: Action.DELETE_PATTERN in holds.actions,
    Kind.INDEX: lambda holds: Action.UPDATE_INDEX in holds.actions,
    Kind.ALONE: lambda holds: holds.acls_alone,
    Kind.GROUP: lambda holds: holds.memberships,
}


class Effect(enum.Enum):
    """The default effect of something that the target cannot hold."""

    STOPS = "stops the run"
    LOST = "lost and counted"
    REJECTED = "rejected"
    FILTERED = "filtered"


class LossRow(msgspec.Struct, frozen=True, kw_only=True):
    """A field or a kind of record that a conversion does not carry.

    `name` is the field of the loss, or the code of the reject or of the filter. `detail` is the
    part that is lost, empty if all of it is. `change` is how the default is changed, empty if it
    cannot be.
    """

    item: str
    effect: Effect
    name: str
    detail: str = ""
    change: str = ""


def loss_table(source: str | None, target: Target) -> tuple[LossRow, ...]:
    """Return the losses of a conversion: first kinds of records, then fields of documents.

    `source` is the name of a format. Of any other source, and of `None`, all canonical records are
    examined. Raise ConfigError for a target that is only read.
    """
    format_ = by_name(target.format)
    if format_.encoder is None:
        raise ConfigError(
            f"⟦to_format⟧ {format_.name}: only read; expected a format that is written"
        )
    origin = from_format.holds if (from_format := find_format(source)) else EVERYTHING
    if format_.keeps_everything:
        return ()
    held = format_.held_by(target)
    rows: dict[tuple[str, str], LossRow] = {}
    carried = set()
    for kind, has_kind in _HAS_KIND.items():
        if has_kind(origin) and kind not in origin.refuses:
            lost = tuple(_kind_rows(kind, origin, held, target))
            rows |= {(row.item, row.name): row for row in lost}
            if held.actions and all(row.effect is not Effect.REJECTED for row in lost):
                carried.add(kind)
    if carried & _DOCUMENTS:
        for name in _FIELDS:
            for row in _field_rows(name, origin, held):
                rows.setdefault((row.item, row.name), row)
    return tuple(rows.values())


def _kind_rows(kind: Kind, origin: Holds, held: Holds, target: Target) -> Iterator[LossRow]:
    """Yield what happens to a kind of record."""
    rejected = kind
    if kind is Kind.UPDATE and "metadata" not in held.fields:
        rejected = Kind.UPDATE_OF_FIELDS
    if kind is Kind.GROUP:
        if format_of(target, memberships=True) is None:
            yield LossRow(item=kind.value, effect=Effect.FILTERED, name="groups-left-out")
    elif not held.actions:
        yield LossRow(item=Kind.ANY.value, effect=Effect.FILTERED, name="documents-left-out")
    elif kind is Kind.INDEX:
        if Action.UPDATE_INDEX not in held.actions:
            yield LossRow(item=kind.value, effect=Effect.FILTERED, name="update-index")
    elif Kind.ANY in held.refuses:
        if Kind.ANY not in origin.refuses:
            yield _rejected(Kind.ANY, held.refuses[Kind.ANY])
    elif refusal := refusal_of(rejected, held, target):
        yield _rejected(kind, refusal)
    elif kind is Kind.ALONE and not held.keeps_acls_alone:
        yield _lost(kind.value, "acl")
        yield LossRow(item=kind.value, effect=Effect.FILTERED, name="acl-alone")
    elif kind is Kind.CONTENT and not _keeps_contents(origin, held):
        yield _lost(kind.value, "content", held.partly.get("content", ""))
    elif kind is Kind.TEXT and "body" not in held.fields:
        yield _lost(kind.value, "mimetype" if "content" in held.fields else "content")


def _keeps_contents(origin: Holds, held: Holds) -> bool:
    """Whether all contents of the source are held."""
    partly = held.partly.get("content", "")
    return "content" in held.fields and partly in ("", origin.partly.get("content"))


def _field_rows(name: str, origin: Holds, held: Holds) -> Iterator[LossRow]:
    """Yield what is lost of a field that files of the source can state."""
    item = name.replace("_", "-")
    if name == "extras" and not all(place.startswith(held.extras) for place in origin.extras):
        yield _lost(item, item)
    if name not in origin.fields:
        return
    if name in _PROTECTION and not held.fields & _PROTECTION:
        yield _lost(item, "acl", "without an ACL, any user would see the document")
    if name == "metadata" and "acl" in origin.fields and not held.fields >= {"acl", "metadata"}:
        yield _lost(item, "acl", "google:acl* metadata")
    if name in held.fields:
        detail = held.partly.get(name, "")
        if detail not in ("", origin.partly.get(name)):
            yield _lost(item, item, detail)
    elif name == "body":
        if "content" in held.fields:
            yield _lost(item, item, "next to content")
    elif name == "fields" and "metadata" in held.fields:
        yield _lost(item, item, "their namespaces")
    elif not _moves(name, held):
        yield _lost(item, item)


def _moves(name: str, held: Holds) -> bool:
    """Whether a field that is not held moves to another field, without a loss."""
    other = "metadata" if name in _TEXTS else "authmethod" if name == "secure" else None
    return other in held.fields


def _lost(item: str, field: str, detail: str = "") -> LossRow:
    stops = field in REFUSED
    return LossRow(
        item=item,
        effect=Effect.STOPS if stops else Effect.LOST,
        name=field,
        detail=detail,
        change=f"{'--accept-loss' if stops else '--fail-on-loss'} {field}",
    )


def _rejected(kind: Kind, refusal: KindRefusal) -> LossRow:
    """Return the row of a reject, with the clause of its reason that names a setting."""
    clauses = refusal.reason.replace(": ⟦", "; ⟦").split("; ")
    change = in_flags(next((clause for clause in clauses if clause.startswith("⟦")), ""))
    return LossRow(item=kind.value, effect=Effect.REJECTED, name=refusal.code, change=change)
