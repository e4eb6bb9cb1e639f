"""Records as command streams hold them: those of a lister, a retriever and an authorizer.

**Spec:** GSA adaptor library, CommandStreamParser, "Lister Commands", "Retriever Commands",
"Authorizer Commands".

What a stream says by saying nothing is no loss: crawl flags of a listing that are false, a
namespace that is `Default`. Neither are fractions of a second, which no stream has, nor blanks
around a principal's name, which the deployed parser takes off.
"""

import re
from collections.abc import Callable
from datetime import datetime
from operator import attrgetter

from msgspec.structs import replace

from schemas.errors import RecordError
from schemas.record import Action, Anchor, Arrival, Authmethod, Crawl, Extra, Meta, Record
from schemas.reject import Filtered
from transforms.formats.adapt_rules import (
    HINTS,
    Draft,
    Rule,
    body_as_content,
    counted,
    field_of,
    fields_as_metadata,
    is_alone,
    is_deletion,
    left_out,
    lose_acl,
    lose_content,
    lose_each_extra,
    lose_fields,
    lose_hints,
    lose_history,
    lose_protection,
    rejected,
    texts_as_metadata,
)
from transforms.formats.command_stream.adapt_acl import fit_acl
from transforms.formats.command_stream.java_uri import is_uri
from transforms.formats.command_stream.text import PARAMS, unknown_command
from transforms.formats.command_stream.writer import GROUP, STATUS, STATUSES, USERNAME
from transforms.formats.target import Adapted, Adapter, Target

_UNHELD_FIELDS = ("size", "visited", "next_check", "overwrite_acls")
_TEXTS = ("title", "description", "keywords")
_LISTED_HINTS = ("lock", "crawl_immediately", "crawl_once", "display_url")
_LISTED_FLAGS = _LISTED_HINTS[:3]
_UNLISTED_HINTS = tuple(name for name in HINTS if name not in _LISTED_HINTS)
_UNRETRIEVED_HINTS = ("crawl_immediately", "authmethod", "pagerank", "feedrank", "scoring")
_ANSWER = (USERNAME, GROUP, STATUS)
_NO_HINTS = Crawl()
_FAR_DATE = "stream/last-modified="
_CHARSET = re.compile(r""";\s*charset\s*=\s*"?([^\s;"]*)""", re.IGNORECASE)
_PARAMETER = re.compile(r"[\w.:+-]+", re.ASCII)

_Refuse = Callable[[Record], None]

_stated_elsewhere = attrgetter(
    *("content", "body", "mimetype", "charset", *_UNHELD_FIELDS, *_TEXTS),
    *("acl", "history", "categories", "metadata", "fields", "extras"),
)
_NOWHERE = (*(None,) * 13, (), (), (), ())
_hinted_elsewhere = attrgetter("display_url", *_UNLISTED_HINTS)
_UNHINTED = _hinted_elsewhere(_NO_HINTS)


def adapter(target: Target) -> Adapter:
    """Return the function that adapts records to streams of the target's format."""
    refuse, rules = _FORMATS[target.format]
    holds = _HOLDS.get(target.format, _never)
    knows_acls = target.format != "authorizer-stream"

    def adapt(record: Record) -> Adapted:
        if holds(record):
            return (record,), ()
        if record.action is Action.UPDATE_INDEX:
            return (Filtered(code="update-index", url=record.url, action=record.action.value),), ()
        try:
            _refuse_pattern(record)
            draft = Draft(record)
            if knows_acls and is_alone(record):
                return left_out(draft)
            refuse(record)
        except RecordError as exc:
            return rejected(record, exc)
        for rule in rules:
            rule(draft, target)
        return draft.finish()

    return adapt


def _never(_record: Record) -> bool:
    return False


def _is_listed(record: Record) -> bool:
    """Whether a listing holds it as it is; of its millions, most are such."""
    if record.action is not Action.ADD or record.arrival is not Arrival.CRAWLED:
        return False
    if record.modified is not None and record.modified.microsecond:
        return False
    return _stated_elsewhere(record) == _NOWHERE and _is_flagged(record.crawl)


def _is_flagged(crawl: Crawl | None) -> bool:
    if crawl is None:
        return True
    flags = (crawl.lock, crawl.crawl_immediately, crawl.crawl_once)
    return True in flags and False not in flags and _hinted_elsewhere(crawl) == _UNHINTED


def _refuse_pattern(record: Record) -> None:
    if record.action is Action.DELETE_PATTERN:
        raise RecordError(
            "delete-pattern",
            f"a deletion of all urls like {record.url!r}; expected one of a url, as a command"
            " stream has no patterns",
        )


def _refuse_update(record: Record) -> None:
    if record.action is Action.UPDATE:
        raise RecordError(
            "partial-update",
            "an update of some fields; expected a whole document, as a command stream replaces all",
        )


def _refuse_bare(record: Record) -> None:
    _refuse_update(record)
    if record.action is Action.ADD and record.content is None and record.body is None:
        raise RecordError(
            "no-content",
            "a url to be crawled, without content; expected content, as a retriever gives it;"
            " --to lister-stream lists what is to be crawled",
        )


def _refuse_unanswered(record: Record) -> None:
    """An id whose answer is missing is one that the authorizer has nothing to say of."""
    if is_deletion(record) or not (_is_answer(record) or record == _bare(record)):
        raise RecordError(
            "no-authz-status",
            "a document; expected what an authorizer answers or is asked, an extra at"
            f" {STATUS} or {USERNAME}",
        )


def _is_answer(record: Record) -> bool:
    return any(extra.place in (STATUS, USERNAME) for extra in record.extras)


def _bare(record: Record) -> Record:
    return Record(url=record.url, action=Action.UPDATE, provenance=record.provenance)


def _keep_url(draft: Draft, _target: Target) -> None:
    """What is not found has no more to say."""
    record = draft.record
    if record.action is Action.DELETE:
        gone = Record(url=record.url, action=Action.DELETE, provenance=record.provenance)
        draft.record = gone


def _lose_document(draft: Draft, _target: Target) -> None:
    """Drop what neither a listing nor an answer says of a document."""
    lose_protection(draft)
    if draft.record.acl is not None:
        lose_acl(draft)
    lose_content(draft)
    lose_fields(draft, ("mimetype", "charset", *_UNHELD_FIELDS, *_TEXTS))
    record = draft.record
    _lose_named(draft, "categories", record.categories)
    _lose_named(draft, "metadata", tuple(meta.name for meta in record.metadata))
    _lose_named(draft, "fields", tuple(field.name for field in record.fields))
    lose_history(draft)


def _lose_named(draft: Draft, field: str, names: tuple[str, ...]) -> None:
    if names:
        draft.lose(field, ", ".join(map(repr, dict.fromkeys(names))))
        draft.change(**{field: ()})


def _lose_unlisted(draft: Draft, _target: Target) -> None:
    lose_hints(draft, _UNLISTED_HINTS)
    crawl = draft.record.crawl
    if crawl is not None:
        flags = {name: getattr(crawl, name) or None for name in _LISTED_FLAGS}
        _set_hints(draft, replace(crawl, **flags))


def _lose_unretrieved(draft: Draft, _target: Target) -> None:
    lose_fields(draft, _UNHELD_FIELDS)
    _authmethod_as_secure(draft)
    lose_hints(draft, _UNRETRIEVED_HINTS)
    lose_history(draft)


def _authmethod_as_secure(draft: Draft) -> None:
    """Say how to log in as `secure`; where a record states both, the more secure wins."""
    crawl = draft.record.crawl
    if crawl is not None and crawl.authmethod is not None:
        is_secure = bool(crawl.secure) or crawl.authmethod is not Authmethod.NONE
        draft.change(crawl=replace(crawl, secure=is_secure))


def _lose_unanswered(draft: Draft, _target: Target) -> None:
    lose_fields(draft, ("modified",))
    lose_hints(draft, HINTS)
    _set_hints(draft, None)


def _set_hints(draft: Draft, crawl: Crawl | None) -> None:
    stated = None if crawl == _NO_HINTS else crawl
    if stated != draft.record.crawl:
        draft.change(crawl=stated)


def _lose_bad_urls(draft: Draft, _target: Target) -> None:
    """The deployed parser gives up at a url that Java does not take."""
    crawl = draft.record.crawl
    if crawl is None:
        return
    if crawl.display_url is not None and not _is_url(crawl.display_url):
        if crawl.display_url:
            draft.lose("display-url", f"{crawl.display_url!r}, which is not well-formed")
        crawl = replace(crawl, display_url=None)
    anchors = tuple(anchor for anchor in crawl.anchors if _is_kept(draft, anchor))
    _set_hints(draft, replace(crawl, anchors=anchors))


def _is_kept(draft: Draft, anchor: Anchor) -> bool:
    if _is_url(anchor.uri):
        return True
    draft.lose("anchors", f"{anchor.uri!r}, which is not well-formed")
    return False


def _is_url(text: str) -> bool:
    return bool(text) and is_uri(text)


def _whole_seconds(draft: Draft, _target: Target) -> None:
    modified: datetime | None = draft.record.modified
    if modified is not None and modified.microsecond:
        draft.change(modified=modified.replace(microsecond=0))


def _keep_commands(draft: Draft, _target: Target) -> None:
    is_dated = draft.record.modified is not None
    _keep_extras(draft, lambda extra: _is_unknown(extra, is_dated=is_dated))


def _keep_commands_and_params(draft: Draft, _target: Target) -> None:
    is_dated = draft.record.modified is not None
    _keep_extras(
        draft,
        lambda extra: extra.place.startswith(PARAMS) or _is_unknown(extra, is_dated=is_dated),
    )


def _is_unknown(extra: Extra, *, is_dated: bool) -> bool:
    """Whether it is a command that nobody knows; a date beyond all calendars, if that is all."""
    if extra.place.startswith(PARAMS) or (is_dated and extra.place == _FAR_DATE):
        return False
    return unknown_command(extra) is not None


def _keep_extras(draft: Draft, is_held: Callable[[Extra], bool]) -> None:
    extras = draft.record.extras
    lost = tuple(extra for extra in extras if not is_held(extra))
    if lost:
        lose_each_extra(draft, lost)
        draft.change(extras=tuple(extra for extra in extras if is_held(extra)))


def _keep_answer(draft: Draft, _target: Target) -> None:
    """Keep one user with its groups, and one answer, in the order of a stream."""
    by_place: dict[str, Extra] = {}
    for extra in draft.record.extras:
        by_place.setdefault(extra.place, extra)
    user, status = by_place.get(USERNAME), by_place.get(STATUS)

    def is_held(extra: Extra) -> bool:
        if extra.place == GROUP:
            return user is not None
        return extra is user or (extra is status and extra.value in STATUSES)

    _keep_extras(draft, is_held)
    ordered = tuple(sorted(draft.record.extras, key=lambda extra: _ANSWER.index(extra.place)))
    if ordered != draft.record.extras:
        draft.change(extras=ordered)


def _arrive_crawled(draft: Draft, _target: Target) -> None:
    _arrive(draft, Arrival.CRAWLED)


def _arrive_pushed(draft: Draft, _target: Target) -> None:
    _arrive(draft, Arrival.PUSHED)


def _arrive(draft: Draft, arrival: Arrival) -> None:
    expected = arrival if draft.record.action is Action.ADD else None
    if draft.record.arrival is not expected:
        draft.change(arrival=expected)


def _answer(draft: Draft, _target: Target) -> None:
    draft.change(action=Action.UPDATE, arrival=None)


def _body_as_content(draft: Draft, target: Target) -> None:
    is_text = draft.record.body is not None and draft.record.content is None
    body_as_content(draft, target)
    if is_text:
        draft.change(charset="UTF-8")


def _charset_in_mimetype(draft: Draft, _target: Target) -> None:
    """A retriever states both as a server does: `text/html; charset=UTF-8`."""
    mimetype, charset = draft.record.mimetype, draft.record.charset
    if charset is None:
        return
    stated = _CHARSET.search(mimetype or "")
    if stated:
        if stated[1].lower() != charset.lower():
            draft.lose("charset", f"{charset!r} beside {mimetype!r}")
    elif mimetype and _PARAMETER.fullmatch(charset):
        mimetype = f"{mimetype}; charset={charset}"
    else:
        draft.lose("charset", f"{charset!r} beside the mimetype {mimetype!r}")
    draft.change(mimetype=mimetype, charset=None)


def _fit_metadata(draft: Draft, _target: Target) -> None:
    """Of pairs that are the same the deployed parser keeps one; a value is always text."""
    fitted: dict[Meta, None] = {}
    for meta in draft.record.metadata:
        text = _as_text(meta)
        if text is None:
            size = counted(len(meta.data or b""), "byte")
            draft.lose(field_of(meta), f"{meta.name!r}, {size} that are no text")
        elif text in fitted:
            draft.lose("metadata", f"{meta.name!r} with the same value again")
        else:
            fitted[text] = None
    if tuple(fitted) != draft.record.metadata:
        draft.change(metadata=tuple(fitted))


def _as_text(meta: Meta) -> Meta | None:
    if meta.data is None:
        return meta
    try:
        return Meta(meta.name, meta.data.decode())
    except UnicodeDecodeError:
        return None


_HOLDS = {"lister-stream": _is_listed}
_FORMATS: dict[str, tuple[_Refuse, tuple[Rule, ...]]] = {
    "lister-stream": (
        _refuse_update,
        (
            _lose_document,
            _lose_unlisted,
            _lose_bad_urls,
            _keep_commands,
            _whole_seconds,
            _arrive_crawled,
        ),
    ),
    "retriever-stream": (
        _refuse_bare,
        (
            _keep_url,
            _body_as_content,
            _lose_unretrieved,
            _lose_bad_urls,
            _keep_commands_and_params,
            texts_as_metadata,
            fields_as_metadata,
            _fit_metadata,
            _charset_in_mimetype,
            fit_acl,
            _whole_seconds,
            _arrive_pushed,
        ),
    ),
    "authorizer-stream": (
        _refuse_unanswered,
        (_lose_document, _lose_unanswered, _keep_answer, _answer),
    ),
}
