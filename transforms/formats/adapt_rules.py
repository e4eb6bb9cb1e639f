"""Rules that adapt a record to a target, as far as more than one target has them.

A rule changes a `Draft` and reports each value that the target cannot hold as a loss. `hold_fields`
is the adapter of a format that holds some fields and loses the others; `encode_contents` encodes
contents as the user chose.
"""

from collections.abc import Callable
from datetime import datetime
from enum import Enum

from msgspec import Struct
from msgspec.structs import asdict, replace

from schemas.content import compress, to_base64
from schemas.errors import RecordError
from schemas.notice import Loss
from schemas.record import Action, Authmethod, Content, Crawl, Encoding, Extra, Meta, Record
from schemas.reject import Filtered, reject_record
from transforms.formats.base import Adapted, Adapter, Outcome, Target
from transforms.formats.gsa.acl import is_acl_name
from transforms.values import doubtful_extra, doubtful_ranks, is_absolute

PLAIN_TEXT = "text/plain"
HINTS = Crawl.__struct_fields__
_NO_HINTS = Crawl()
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
_DEFAULT_FIELDS = {"overwrite_acls": True}
# A look-up in the enum costs ten times as much.
_DELETE = Action.DELETE
_UPDATE_INDEX, _DELETE_PATTERN = Action.UPDATE_INDEX, Action.DELETE_PATTERN
_SINGLE_FIELDS = (
    *("mimetype", "charset", "size", "title", "description", "keywords", "body"),
    *("modified", "visited", "next_check", "overwrite_acls"),
)
_LISTS = ("categories", "metadata", "fields")
_NOT_HELD = {Action.UPDATE: "partial-update", _DELETE_PATTERN: "delete-pattern"}


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
    """Drop single-valued fields, each a loss unless it states a default or nothing."""
    stated = [(name, getattr(draft.record, name)) for name in names]
    stated = [(name, value) for name, value in stated if value is not None]
    for name, value in stated:
        if value not in ("", _DEFAULT_FIELDS.get(name)):
            draft.lose(name.replace("_", "-"), _format(value))
    if stated:
        draft.change(**dict.fromkeys(dict(stated)))


def lose_hints(draft: Draft, names: tuple[str, ...]) -> None:
    """Drop hints for crawling, ranking and showing, each a loss unless it states the default."""
    crawl = draft.record.crawl
    if crawl is None:
        return
    stated = {name for name in names if getattr(crawl, name) not in (None, ())}
    for name in names:
        if name in stated and getattr(crawl, name) != getattr(_DEFAULT_HINTS, name):
            draft.lose(name.replace("_", "-"), _format(getattr(crawl, name)))
    if stated:
        rest = replace(crawl, **{name: getattr(_NO_HINTS, name) for name in stated})
        draft.change(crawl=None if rest == _NO_HINTS else rest)


def lose_protection(draft: Draft) -> None:
    """Report the protection of a document other than its ACL, for a target without a place for it.

    It may be an authmethod, or metadata that an appliance may read as an ACL.
    """
    record = draft.record
    crawl = record.crawl
    if crawl is not None and record.acl is None:
        if crawl.authmethod not in (None, Authmethod.NONE):
            draft.lose("acl", f"none, but the authmethod {_format(crawl.authmethod)}")
        elif crawl.secure:
            draft.lose("acl", "none, but the document is secure")
    for meta in record.metadata:
        if is_acl_name(meta.name):
            draft.lose("acl", f"metadata {meta.name!r}")


def field_of(meta: Meta) -> str:
    """Return the field that is lost with a pair: `acl` if an appliance may read it as an ACL."""
    return "acl" if is_acl_name(meta.name) else "metadata"


def lose_history(draft: Draft) -> None:
    history = draft.record.history
    if history is None:
        return
    stated = [name for name, value in asdict(history).items() if value not in (None, ())]
    if stated:
        draft.lose("history", ", ".join(stated).replace("_", "-"))
    draft.change(history=None)


def lose_extras(draft: Draft, held: tuple[str, ...]) -> None:
    """Drop extras, except those whose place begins with one of `held`."""
    extras = draft.record.extras
    if not extras:
        return
    kept = tuple(extra for extra in extras if extra.place.startswith(held))
    if len(kept) < len(extras):
        lost = tuple(extra for extra in extras if not extra.place.startswith(held))
        lose_each_extra(draft, lost)
        draft.change(extras=kept)


def lose_each_extra(draft: Draft, lost: tuple[Extra, ...]) -> None:
    """Report extras as lost: unreadable values under the name of their field, the others together.

    The caller drops them from the record.
    """
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


def lose_doubtful_values(draft: Draft) -> None:
    """Drop values that the specification does not allow, each a loss under its own name."""
    record = draft.record
    lost = tuple(extra for extra in record.extras if doubtful_extra(record, extra))
    if lost:
        lose_each_extra(draft, lost)
        draft.change(extras=tuple(extra for extra in record.extras if extra not in lost))
    ranks = tuple(doubtful_ranks(record))
    if ranks and record.crawl is not None:
        for value in ranks:
            draft.lose(value.loss, value.detail)
        crawl = replace(record.crawl, **{value.loss: None for value in ranks})
        draft.change(crawl=None if crawl == _NO_HINTS else crawl)


def require_absolute_url(record: Record) -> None:
    """Raise RecordError unless the URL is absolute, as every appliance needs that of a document."""
    if not is_absolute(record.url):
        raise RecordError(
            "url-not-absolute",
            f"url={record.url!r}; expected an absolute URL, as in http://host/path: --base-url"
            " completes document ids and paths",
        )


def lose_acl(draft: Draft) -> None:
    acl = draft.record.acl
    if acl is None:
        return
    parent = f", inherits from {acl.inherit_from!r}" if acl.inherit_from else ""
    draft.lose("acl", f"{counted(len(acl.principals), 'principal')}{parent}")
    draft.change(acl=None)


def left_out(draft: Draft) -> Adapted:
    """The adapted form of an ACL alone, where a target has no place for one."""
    record = draft.record
    lose_acl(draft)
    return filtered(record, "acl-alone"), () if is_deletion(record) else tuple(draft.losses)


def lose_content(draft: Draft) -> None:
    """Drop content and the text that was extracted from it."""
    record = draft.record
    if record.content is not None:
        size, encoding = len(record.content.data), record.content.encoding.value
        draft.lose("content", f"{counted(size, 'byte')}, {encoding}")
    elif record.body is not None:
        draft.lose("content", f"{counted(len(record.body), 'character')} of extracted text")
    if record.content is not None or record.body is not None:
        draft.change(content=None, body=None)


def body_as_content(draft: Draft) -> None:
    record = draft.record
    if record.body is None:
        return
    if record.content is not None:
        if record.body:
            draft.lose("body", f"{counted(len(record.body), 'character')} beside content")
        draft.change(body=None)
        return
    if record.mimetype not in (None, PLAIN_TEXT):
        draft.lose("mimetype", f"{record.mimetype!r}: only the text of it is there")
    content = Content(record.body.encode("utf-8", "surrogatepass"))
    draft.change(body=None, content=content, mimetype=PLAIN_TEXT, charset=None)


def texts_as_metadata(draft: Draft) -> None:
    """Put title, description, keywords and categories before the metadata."""
    record = draft.record
    metas = []
    if record.title is not None:
        metas.append(Meta("title", record.title))
    if record.description is not None:
        metas.append(Meta("description", record.description))
    if record.keywords is not None:
        metas.append(Meta("keywords", record.keywords))
    for category in record.categories:
        metas.append(Meta("category", category))
    if metas:
        draft.record = replace(
            record,
            title=None,
            description=None,
            keywords=None,
            categories=(),
            metadata=(*metas, *record.metadata),
        )


def fields_as_metadata(draft: Draft) -> None:
    record = draft.record
    if not record.fields:
        return
    for field in record.fields:
        if field.namespace is not None:
            draft.lose("fields", f"namespace {field.namespace!r} of {field.name!r}")
    metas = (Meta(field.name, value) for field in record.fields for value in field.values)
    draft.change(fields=(), metadata=(*record.metadata, *metas))


def hold_fields(*fields: str) -> Callable[[Target], Adapter]:
    """Return the `Format.adapter` of a format that holds the URL, deletions and these fields.

    Every other field becomes a loss under its name. Partial updates and deletions by pattern are
    rejected.
    """
    lost = tuple(name for name in _SINGLE_FIELDS if name not in fields)
    lost_lists = tuple(name for name in _LISTS if name not in fields)

    def adapt(record: Record) -> Adapted:
        if record.action is _UPDATE_INDEX:
            return filtered(record, "update-index"), ()
        if (code := _NOT_HELD.get(record.action)) is not None:
            reason = f"{record.action.value}; expected a whole document or its deletion"
            return rejected(record, RecordError(code, reason))
        draft = Draft(record)
        if "acl" not in fields:
            if is_alone(record):
                return left_out(draft)
            lose_protection(draft)
            lose_acl(draft)
        if "content" not in fields:
            lose_content(draft)
        lose_fields(draft, lost)
        for name in lost_lists:
            values = getattr(draft.record, name)
            if values:
                draft.lose(name, str(len(values)))
                draft.change(**{name: ()})
        if "crawl" not in fields:
            lose_hints(draft, HINTS)
        if "history" not in fields:
            lose_history(draft)
        if "extras" not in fields:
            lose_extras(draft, ())
        return draft.finish()

    return lambda _target: adapt


def encode_contents(adapt: Adapter, target: Target) -> Adapter:
    """Return `adapt`, followed by the encoding of contents that the user chose.

    **Spec:** Feeds Protocol Developer's Guide 7.x, "Content Compression". Release 5.0 has no
    compression; its writer undoes it.
    """
    if target.content_encoding == "auto":
        return adapt

    def adapt_and_encode(record: Record) -> Adapted:
        outcomes, losses = adapt(record)
        try:
            return tuple(_encode(outcome, target) for outcome in outcomes), losses
        except RecordError as exc:
            return rejected(record, exc)

    return adapt_and_encode


def _encode(outcome: Outcome, target: Target) -> Outcome:
    if not isinstance(outcome, Record) or outcome.content is None:
        return outcome
    content = outcome.content
    if target.content_encoding == "zlib":
        content = compress(content, max_bytes=target.max_content_bytes)
    elif content.encoding is Encoding.NONE:
        content = Content(to_base64(content), Encoding.BASE64)
    return replace(outcome, content=content)


def counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _format(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, datetime):
        return value.isoformat(" ")
    if isinstance(value, tuple):
        return str(len(value))
    return repr(value)
