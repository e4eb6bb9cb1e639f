"""Rules that adapt a record to a target, as far as more than one target has them.

A rule changes a `Draft` and reports each value that the target cannot hold as a loss. `hold` is the
adapter of a format that declares what it holds; `encode_contents` encodes contents as the user
chose.
"""

from collections.abc import Callable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from datetime import datetime
from enum import Enum
from functools import partial
from operator import attrgetter

from msgspec import Struct
from msgspec.structs import asdict, replace

from feedferry.schemas.acl import Acl
from feedferry.schemas.content import compress, decode, to_base64
from feedferry.schemas.errors import RecordError
from feedferry.schemas.notice import Loss
from feedferry.schemas.record import (
    Action,
    Anchor,
    Arrival,
    Authmethod,
    Content,
    Crawl,
    Encoding,
    Extra,
    History,
    Meta,
    Record,
)
from feedferry.schemas.reject import Filtered, reject_record
from feedferry.schemas.url_pattern import compile_pattern
from feedferry.transforms.formats.base import (
    FIELDS,
    HINTS,
    Adapted,
    Adapter,
    ContentOptions,
    Holds,
    Kind,
    KindRefusal,
    Outcome,
    Target,
)
from feedferry.transforms.formats.holding.acl_metadata import is_acl_name
from feedferry.transforms.formats.holding.values import doubtful_extra, doubtful_ranks, is_absolute

PLAIN_TEXT = "text/plain"
_NOTHING = Record(url="", action=Action.ADD)
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
_DEFAULTS = Record(url="", action=Action.ADD, overwrite_acls=True)
# A look-up in the enum costs ten times as much.
_ADD, _DELETE, _UPDATE = Action.ADD, Action.DELETE, Action.UPDATE
_UPDATE_INDEX, _DELETE_PATTERN = Action.UPDATE_INDEX, Action.DELETE_PATTERN
_TYPES = ("mimetype", "charset")
_TEXTS = ("title", "description", "keywords", "categories")
_PLAIN_FIELDS = (
    *(*_TYPES, "size", "visited", "next_check", "overwrite_acls", "title", "description"),
    *("keywords", "modified", "categories", "metadata", "fields", "history"),
)
_EXPANDS = "⟦known_urls⟧ lists the URLs that patterns are matched with"
REFUSALS = {
    Kind.DELETION: KindRefusal(
        "deletion", "a deletion; expected a document: {format} has no deletions"
    ),
    Kind.UPDATE: KindRefusal(
        "partial-update",
        "an update of some fields; expected a whole document, as {format} replaces all",
    ),
    Kind.PATTERN: KindRefusal(
        "delete-pattern",
        "a deletion by the pattern {url!r}; expected one of a URL, as {format} has no patterns",
    ),
    Kind.WIDE: KindRefusal(
        "wide-delete",
        "a deletion by the pattern {url!r}; expected a pattern that names part of a path, because"
        " this one empties a host or more; ⟦allow_wide_deletes⟧ allows it",
    ),
    Kind.CRAWLED: KindRefusal(
        "crawled",
        "a URL to be crawled; expected a document, as {format} has no such URLs; the crawler takes"
        " them as a list",
    ),
    Kind.DOCUMENT_ID: KindRefusal(
        "url-not-absolute",
        "url={url!r}; expected an absolute URL, as in http://host/path: ⟦base_url⟧ completes"
        " document ids and paths",
    ),
}
"""Why a kind of record that a format does not hold is rejected."""
_UNHELD = {
    _DELETE: Kind.DELETION,
    Action.UPDATE: Kind.UPDATE,
    _DELETE_PATTERN: Kind.PATTERN,
}
_KINDS = {
    _ADD: (Kind.CRAWLED, Kind.EMPTY),
    Action.UPDATE: (Kind.UPDATE, Kind.UPDATE_OF_FIELDS, Kind.UPDATE_OF_NOTHING),
    _DELETE: (Kind.DELETION,),
    _DELETE_PATTERN: (Kind.PATTERN, Kind.WIDE),
}
"""The kinds of records of an action that a format may refuse."""
_ACTIONS = {kind: action for action, kinds in _KINDS.items() for kind in kinds}
_STATED = ("body", "content", "metadata", "fields", "extras")


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
        draft.change(crawl=None if rest == _NO_HINTS else rest)


def _report(draft: Draft, holder: Record | Crawl, names: tuple[str, ...]) -> dict[str, object]:
    """Report the fields that state more than a default; return what states nothing in each."""
    is_record = isinstance(holder, Record)
    nothing = _NOTHING if is_record else _NO_HINTS
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
        draft.change(crawl=None if crawl == _NO_HINTS else crawl)


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
    nothing = {name: getattr(_NOTHING, name) for name in names}
    draft.change(**nothing, metadata=(*metas, *draft.record.metadata))


def fields_as_metadata(draft: Draft) -> None:
    record = draft.record
    for field in record.fields:
        if field.namespace is not None:
            draft.lose("fields", f"namespace {field.namespace!r} of {field.name!r}")
    metas = (Meta(field.name, value) for field in record.fields for value in field.values)
    draft.change(fields=(), metadata=(*record.metadata, *metas))


def losing(holds: Holds) -> Callable[[Draft], None]:
    """Return the rule that leaves of a record what a format holds; all else is a loss.

    Three things move instead: a body to the content, texts and fields to the metadata, and the
    protection of a document to the hint that the format has.
    """
    held = holds.fields
    moved = {*_TEXTS, "fields"} - held if "metadata" in held else frozenset[str]()
    lost = tuple(name for name in _PLAIN_FIELDS if name not in held | moved)
    texts = tuple(name for name in _TEXTS if name in moved)
    hints = tuple(name for name in HINTS if name not in held)
    move_body = partial(body_as_content, unheld={*_TYPES} - held)
    move_texts = partial(texts_as_metadata, names=texts, keeps_empty=holds.empty_metadata)
    rules: tuple[tuple[bool, tuple[str, ...], Callable[[Draft], None]], ...] = (
        (True, ("crawl", "metadata"), partial(fit_protection, held=held)),
        ("acl" not in held, ("acl",), partial(lose_fields, names=("acl",))),
        (
            "content" not in held,
            ("content", "body"),
            partial(lose_content, keeps_body="body" in held),
        ),
        (bool(lost), lost, partial(lose_fields, names=lost)),
        (held >= {"content"} and "body" not in held, ("body",), move_body),
        (bool(texts), texts, move_texts),
        ("fields" in moved, ("fields",), fields_as_metadata),
        (bool(hints), ("crawl",), partial(lose_hints, names=hints)),
        (
            holds.extras != ("",),
            ("extras",),
            partial(keep_extras, is_kept=lambda extra: extra.place.startswith(holds.extras)),
        ),
    )
    needed = tuple((*_stating(names), rule) for is_needed, names, rule in rules if is_needed)
    unheld_fields = FIELDS.difference(held, HINTS, ("arrival", "provenance"))
    unheld, nothing = _stating(("extras", *unheld_fields))
    unheld_hints = attrgetter(*(hints or HINTS))
    no_hints = unheld_hints(_NO_HINTS)
    has_names = not held >= {"acl", "metadata"}

    def lose(draft: Draft) -> None:  # most records need no rule
        record, crawl = draft.record, draft.record.crawl
        has_hints = crawl is not None and unheld_hints(crawl) != no_hints
        if has_hints or unheld(record) != nothing:
            for stated, default, rule in needed:
                if stated(record) != default:
                    rule(draft)
        elif has_names and record.metadata:
            fit_protection(draft, held)

    return lose


def _stating(names: Iterable[str]) -> tuple[Callable[[Record], object], object]:
    """Return a function that gets the values of some fields of a record, and the empty values."""
    get = attrgetter(*names)
    return get, get(_NOTHING)


def hold(
    holds: Holds,
    target: Target,
    *,
    refuse: Callable[[Record], None] | None = None,
    fit: Callable[[Draft], None] | None = None,
) -> Adapter:
    """Return the adapter of what a chunk for a target holds, with rules of its format.

    `refuse` raises RecordError for records that the format does not have at all; `fit` changes what
    `losing` leaves.
    """
    lose = losing(holds)
    needs_absolute = holds.absolute_urls
    refused = tuple(
        action
        for action, kinds in _KINDS.items()
        if any(refusal_of(kind, holds, target) for kind in kinds)
    )
    leaves_out = not (holds.keeps_acls_alone or Kind.ALONE in holds.refuses)
    expands = Action.DELETE in holds.actions and _DELETE_PATTERN not in holds.actions

    def adapt(record: Record) -> Adapted:
        action, acl = record.action, record.acl
        is_acl = acl is not None and acl.alone
        try:
            if action is _UPDATE_INDEX and action not in holds.actions:
                return filtered(record, "update-index"), ()
            if action is _DELETE_PATTERN and expands and target.known_urls:
                return _expand_pattern(record, target, adapt), ()
            if refuse is not None:
                refuse(record)
            draft = Draft(record)
            if is_acl and leaves_out:
                return left_out(draft)
            is_document = record.content is not None or record.body is not None
            is_usual = action not in refused or (action is _ADD and is_document)
            if not is_usual or is_acl or (needs_absolute and not is_absolute(record.url)):
                _refuse(record, holds, target)
            lose(draft)
            if fit is not None:
                fit(draft)
            if action is _UPDATE and draft.record is not record:
                _refuse(draft.record, holds, target)  # nothing may be left of it
            if not holds.encodings:
                _decode_content(draft, target)
        except RecordError as exc:
            return rejected(record, exc)
        return draft.finish()

    return adapt


def refusal_of(kind: Kind, holds: Holds, target: Target) -> KindRefusal | None:
    """Return why a target rejects a kind of record, None if it does not."""
    if kind in holds.refuses:
        return holds.refuses[kind]
    action = _ACTIONS.get(kind, _ADD)
    if action not in holds.actions:
        refusal = REFUSALS[_UNHELD[action]]
        expands = action is _DELETE_PATTERN and _DELETE in holds.actions
        return refusal._replace(reason=f"{refusal.reason}; {_EXPANDS}") if expands else refusal
    is_unheld = {
        Kind.DOCUMENT_ID: holds.absolute_urls,
        Kind.CRAWLED: "content" in holds.fields and "arrival" not in holds.fields,
        Kind.WIDE: not target.allow_wide_deletes,
    }
    return REFUSALS[kind] if is_unheld.get(kind) else None


def _refuse(record: Record, holds: Holds, target: Target) -> None:
    """Raise RecordError for a record of a kind that the target rejects."""
    for kind in _kinds_of(record, holds):
        if refusal := refusal_of(kind, holds, target):
            reason = refusal.reason.format(url=record.url, format=target.format)
            raise RecordError(refusal.code, reason)


def _kinds_of(record: Record, holds: Holds) -> Iterator[Kind]:
    """Yield the kinds of a record that formats may refuse.

    An update is one of single fields if it has nothing that the format replaces as a whole.
    """
    action = record.action
    if action is _UPDATE_INDEX:
        return
    if action is not _DELETE_PATTERN and not is_absolute(record.url):
        yield Kind.DOCUMENT_ID
    if is_alone(record):
        yield Kind.ALONE
    if action not in holds.actions:
        yield _UNHELD[action]
    elif is_alone(record):
        return
    elif action is _DELETE_PATTERN:
        yield Kind.WIDE if record.is_wide_deletion else Kind.PATTERN
    elif action is _ADD:
        is_empty = record.content is None and record.body is None
        crawled = Kind.CRAWLED if record.arrival is Arrival.CRAWLED else Kind.EMPTY
        yield crawled if is_empty else Kind.CONTENT
    elif action is _DELETE:
        yield Kind.DELETION
    elif _has_whole_part(record, holds.fields):
        yield Kind.UPDATE
    else:
        is_stated = any(getattr(record, name) for name in (*_TEXTS, *_STATED))
        yield Kind.UPDATE_OF_FIELDS if is_stated else Kind.UPDATE_OF_NOTHING


def _has_whole_part(record: Record, held: AbstractSet[str]) -> bool:
    """Whether an update has a part that the format replaces as a whole."""
    return bool(
        (record.metadata and "metadata" in held)
        or (record.acl is not None and "acl" in held)
        or (record.content is not None and "content" in held)
        or (record.body is not None and not held.isdisjoint(("body", "content")))
    )


def _expand_pattern(record: Record, target: Target, adapt: Adapter) -> tuple[Outcome, ...]:
    """Return a deletion for each known URL that the pattern covers."""
    pattern = compile_pattern(record.url)
    urls = [url for url in target.known_urls if pattern.fullmatch(url)]
    if not urls:
        return filtered(record, "no-known-url")
    deletion = Record(url="", action=Action.DELETE, provenance=record.provenance)
    return tuple(outcome for url in urls for outcome in adapt(replace(deletion, url=url))[0])


def _decode_content(draft: Draft, target: Target) -> None:
    content = draft.record.content
    if content is not None and content.encoding is not Encoding.NONE:
        document = decode(content, max_bytes=target.max_content_bytes)
        draft.change(content=Content(document))


def encode_contents(adapt: Adapter, target: Target) -> Adapter:
    """Return `adapt`, followed by the encoding of contents that the user chose.

    **Spec:** Feeds Protocol Developer's Guide 7.x, "Content Compression". Release 5.0 has no
    compression; its writer undoes it.
    """
    encoding = target.of(ContentOptions).content_encoding
    if encoding == "auto":
        return adapt

    def adapt_and_encode(record: Record) -> Adapted:
        outcomes, losses = adapt(record)
        try:
            return tuple(_encode(outcome, encoding, target) for outcome in outcomes), losses
        except RecordError as exc:
            return rejected(record, exc)

    return adapt_and_encode


def _encode(outcome: Outcome, encoding: str, target: Target) -> Outcome:
    if not isinstance(outcome, Record) or outcome.content is None:
        return outcome
    content = outcome.content
    if encoding == "zlib":
        content = compress(content, max_bytes=target.max_content_bytes)
    elif content.encoding is Encoding.NONE:
        content = Content(to_base64(content), Encoding.BASE64)
    return replace(outcome, content=content)


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
