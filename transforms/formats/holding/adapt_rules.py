"""Rules that adapt a record to a target, as far as more than one target has them.

A rule changes a `Draft` and reports each value that the target cannot hold as a loss.
"""

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from datetime import datetime
from enum import Enum

from msgspec import Struct
from msgspec.structs import asdict, replace

from feedferry.schemas.acl import Acl
from feedferry.schemas.errors import RecordError
from feedferry.schemas.notice import Loss
from feedferry.schemas.record import (
    Action,
    Anchor,
    Authmethod,
    Content,
    Crawl,
    Extra,
    History,
    Meta,
    Record,
)
from feedferry.schemas.reject import Filtered, reject_record
from feedferry.transforms.formats.base import Adapted, Outcome
from feedferry.transforms.formats.holding.acl_metadata import is_acl_name
from feedferry.transforms.formats.holding.values import doubtful_extra, doubtful_ranks

PLAIN_TEXT = "text/plain"
TEXTS = ("title", "description", "keywords", "categories")
NOTHING = Record(url="", action=Action.ADD)
NO_HINTS = Crawl()
_DEFAULT_HINTS = Crawl(
    lock=False,
    crawl_immediately=False,
    crawl_once=False,
    authmethod=Authmethod.NONE,
    secure=False,
    no_index=False,
    no_follow=False,
    no_archive=False,
    display_url="",
)
_AUTHMETHOD_PLACE = "/@authmethod"
_DEFAULTS = Record(url="", action=Action.ADD, overwrite_acls=True)
# A look-up in the enum costs ten times as much.
_DELETE, _DELETE_PATTERN = Action.DELETE, Action.DELETE_PATTERN


class Draft(Struct):
    """A record that is being adapted, and its losses."""

    record: Record
    losses: list[Loss] = []

    def change(self, **fields: object) -> None:
        """Change fields; rules for most records use `replace`, which takes half the time."""
        self.record = replace(self.record, **fields)

    def lose(self, field: str, detail: str) -> None:
        self.losses.append(Loss(field=field, url=self.record.url, detail=detail))

    def finish(self) -> tuple[tuple[Record], tuple[Loss, ...]]:
        """Return record and losses. A deletion has no losses: its document is deleted anyway."""
        if not self.losses or is_deletion(self.record):
            return (self.record,), ()
        return (self.record,), tuple(self.losses)


def is_deletion(record: Record) -> bool:
    return record.action is _DELETE or record.action is _DELETE_PATTERN


def is_alone(record: Record) -> bool:
    """Whether the record is an ACL without a document."""
    return record.acl is not None and record.acl.alone


def rejected(record: Record, reason: RecordError) -> Adapted:
    """The adapted form of a record that a target cannot take."""
    reject = reject_record(record, reason, stage="adapt")
    return (reject,), ()


def filtered(record: Record, code: str) -> tuple[Outcome]:
    """The outcome of a record that is neither written nor rejected."""
    return (Filtered(code=code, url=record.url, action=record.action.value),)


def lose_fields(draft: Draft, names: tuple[str, ...]) -> None:
    """Drop fields, each a loss unless it states a default or nothing."""
    dropped = _report(draft, draft.record, names)
    if dropped:
        draft.change(**dropped)


def lose_hints(draft: Draft, names: tuple[str, ...]) -> None:
    """Drop hints for crawling, ranking and showing, each a loss unless it states the default."""
    crawl = draft.record.crawl
    if crawl is not None and (dropped := _report(draft, crawl, names)):
        rest = replace(crawl, **dropped)
        draft.change(crawl=None if rest == NO_HINTS else rest)


def _report(draft: Draft, holder: Record | Crawl, names: tuple[str, ...]) -> dict[str, object]:
    """Report the fields that state more than a default; return what states nothing in each."""
    is_record = isinstance(holder, Record)
    nothing = NOTHING if is_record else NO_HINTS
    defaults = _DEFAULTS if is_record else _DEFAULT_HINTS
    stated = [name for name in names if getattr(holder, name) not in (None, ())]
    for name in stated:
        value = getattr(holder, name)
        detail = "" if value in ("", getattr(defaults, name)) else _describe(value)
        if detail:
            draft.lose(name.replace("_", "-"), detail)
    return {name: getattr(nothing, name) for name in stated}


def fit_protection(draft: Draft, held: AbstractSet[str]) -> None:
    """State the protection of a document other than its ACL in the fields that a target holds.

    It may be an authmethod, `secure`, or metadata that an appliance may read as an ACL. Without a
    place for it, it is a loss of `acl`, which a lost ACL reports as well.
    """
    record = draft.record
    crawl = record.crawl
    if crawl is not None:
        method = crawl.authmethod or Authmethod.NONE
        is_secure = crawl.secure or method is not Authmethod.NONE
        if "authmethod" in held:
            if crawl.secure is not None and "secure" not in held:
                method = Authmethod.HTTPBASIC if is_secure and method is Authmethod.NONE else method
                draft.change(crawl=replace(crawl, secure=None, authmethod=method))
        elif "secure" in held:
            if crawl.authmethod is not None:
                draft.change(crawl=replace(crawl, secure=is_secure))
        elif is_secure and (record.acl is None or "acl" in held):
            names_method = method is not Authmethod.NONE
            lost = f"the authmethod {method.value}" if names_method else "the document is secure"
            draft.lose("acl", lost if record.acl else f"none, but {lost}")
    if not held >= {"acl", "metadata"}:
        for meta in record.metadata:
            if is_acl_name(meta.name):
                draft.lose("acl", f"metadata {meta.name!r}")


def field_of(meta: Meta) -> str:
    """Return the field that is lost with a pair: `acl` if an appliance may read it as an ACL."""
    return "acl" if is_acl_name(meta.name) else "metadata"


def keep_extras(draft: Draft, is_kept: Callable[[Extra], bool]) -> None:
    """Drop other extras: an unreadable value is a loss of its field, others are lost as extras."""
    extras = draft.record.extras
    lost = [extra for extra in extras if not is_kept(extra)]
    if not lost:
        return
    others = []
    for extra in lost:
        value = doubtful_extra(draft.record, extra)
        if value is None:
            others.append(extra.place)
        else:
            draft.lose(value.loss, value.detail)
        if extra.place.lower().endswith(_AUTHMETHOD_PLACE):
            is_lost = any(loss.field == "acl" for loss in draft.losses)
            if draft.record.acl is None and not is_lost:
                draft.lose("acl", f"none, but an unknown authmethod {extra.value!r}")
    if others:
        draft.lose("extras", ", ".join(others))
    draft.change(extras=tuple(filter(is_kept, extras)))


def fit_metadata(draft: Draft, fit: Callable[[Draft, Meta], Meta | None]) -> None:
    """Replace each pair by what fits, or drop it; `fit` reports what is lost."""
    fitted = [fit(draft, meta) for meta in draft.record.metadata]
    metadata = tuple(meta for meta in fitted if meta is not None)
    if metadata != draft.record.metadata:
        draft.change(metadata=metadata)


def lose_doubtful_values(draft: Draft) -> None:
    """Drop values that the specification does not allow, each a loss under its own name."""
    record = draft.record
    keep_extras(draft, lambda extra: doubtful_extra(record, extra) is None)
    ranks = tuple(doubtful_ranks(record))
    if ranks and record.crawl is not None:
        for value in ranks:
            draft.lose(value.loss, value.detail)
        crawl = replace(record.crawl, **{value.loss: None for value in ranks})
        draft.change(crawl=None if crawl == NO_HINTS else crawl)


def left_out(draft: Draft) -> Adapted:
    """The adapted form of an ACL alone, where a target has no place for one."""
    record = draft.record
    lose_fields(draft, ("acl",))
    return filtered(record, "acl-alone"), () if is_deletion(record) else tuple(draft.losses)


def lose_content(draft: Draft, *, keeps_body: bool = False) -> None:
    """Drop content and the text that was extracted from it."""
    record = draft.record
    body = None if keeps_body else record.body
    if record.content is not None:
        size, encoding = len(record.content.data), record.content.encoding.value
        draft.lose("content", f"{counted(size, 'byte')}, {encoding}")
    elif body is not None:
        draft.lose("content", f"{counted(len(body), 'character')} of extracted text")
    if record.content is not None or body is not None:
        draft.change(content=None, body=record.body if keeps_body else None)


def body_as_content(draft: Draft, unheld: AbstractSet[str]) -> None:
    """Make a body the content, with its type and charset unless they are not held."""
    record = draft.record
    if record.body is None:
        return
    if record.content is not None:
        if record.body:
            draft.lose("body", f"{counted(len(record.body), 'character')} next to content")
        draft.change(body=None)
        return
    if record.mimetype not in (None, PLAIN_TEXT):
        draft.lose("mimetype", f"{record.mimetype!r}: only the text of it is there")
    content = Content(record.body.encode("utf-8", "surrogatepass"))
    mimetype = None if "mimetype" in unheld else PLAIN_TEXT
    charset = None if "charset" in unheld else "UTF-8"
    draft.change(body=None, content=content, mimetype=mimetype, charset=charset)


def texts_as_metadata(draft: Draft, names: tuple[str, ...], *, keeps_empty: bool) -> None:
    """Put texts and categories before the metadata; empty ones only where a format holds them."""
    metas: list[Meta] = []
    for name in names:
        stated = getattr(draft.record, name)
        if name == "categories":
            metas += (Meta("category", text) for text in stated if text or keeps_empty)
        elif stated is not None and (stated or keeps_empty):
            metas.append(Meta(name, stated))
    nothing = {name: getattr(NOTHING, name) for name in names}
    draft.change(**nothing, metadata=(*metas, *draft.record.metadata))


def fields_as_metadata(draft: Draft) -> None:
    record = draft.record
    for field in record.fields:
        if field.namespace is not None:
            draft.lose("fields", f"namespace {field.namespace!r} of {field.name!r}")
    metas = (Meta(field.name, value) for field in record.fields for value in field.values)
    draft.change(fields=(), metadata=(*record.metadata, *metas))


def counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _describe(value: object) -> str:
    """Return the value of a field, for a loss; empty if it states nothing."""
    if isinstance(value, Acl):
        parent = f", inherits from {value.inherit_from!r}" if value.inherit_from else ""
        return f"{counted(len(value.principals), 'principal')}{parent}"
    if isinstance(value, History):
        stated = (name for name, part in asdict(value).items() if part not in (None, ()))
        return ", ".join(stated).replace("_", "-")
    if isinstance(value, tuple):
        names = map(repr, dict.fromkeys(getattr(item, "name", item) for item in value))
        return str(len(value)) if isinstance(value[0], Anchor) else ", ".join(names)
    if isinstance(value, datetime):
        return value.isoformat(" ")
    if isinstance(value, Enum):
        return str(value.value)
    return str(value).lower() if isinstance(value, bool) else repr(value)
