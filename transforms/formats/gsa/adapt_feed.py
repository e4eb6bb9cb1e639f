"""Adapt records to gsafeeds: content feeds, web feeds and metadata-and-url feeds.

**Spec:** Feeds Protocol Developer's Guide 7.x, "Defining the XML Record for a Document",
"Choosing the Feed Type", "Adding Metadata Information to a Record".
"""

import re
from functools import lru_cache
from operator import attrgetter
from urllib.parse import unquote, urlsplit

from msgspec.structs import replace

from schemas.errors import RecordError
from schemas.feed import FULL, is_web
from schemas.record import Action, Arrival, Authmethod, Crawl, Encoding, Meta, Record
from schemas.reject import Filtered
from transforms import charset
from transforms.formats.adapt_rules import (
    Draft,
    RuleOf,
    RuleTable,
    body_as_content,
    field_of,
    fields_as_metadata,
    is_deletion,
    lose_content,
    lose_doubtful_values,
    lose_extras,
    lose_fields,
    lose_hints,
    lose_history,
    rejected,
    require_absolute_url,
    texts_as_metadata,
)
from transforms.formats.base import DIALECT_5_0
from transforms.formats.gsa import adapt_dialect_5
from transforms.formats.gsa.acl_parent import join_parent, split_parent
from transforms.formats.target import Adapted, Adapter, Outcome, Target
from transforms.mimetype_table import is_archive_type, type_of_name
from transforms.values import doubtful_ranks

IGNORED_MIMETYPE = "text/plain"
"""The DTD requires a mimetype where the appliance ignores it; deployed connectors write this."""

_TEXTS = ("title", "description", "keywords", "categories")
_UNHELD_FIELDS = ("size", "visited", "next_check")
_UNHELD_HINTS = ("no_index", "no_follow", "no_archive", "anchors")
_unheld_hints = attrgetter(*_UNHELD_HINTS)
_NO_UNHELD_HINTS = _unheld_hints(Crawl())
_HELD_PLACES = ("record/", "group/", "acl/")
_UTF_8 = ("utf-8", "utf8")
# A look-up in the enum costs ten times as much.
_ADD, _UPDATE = Action.ADD, Action.UPDATE
_PUSHED, _CRAWLED = Arrival.PUSHED, Arrival.CRAWLED
_UPDATE_INDEX, _DELETE_PATTERN = Action.UPDATE_INDEX, Action.DELETE_PATTERN


def adapter(target: Target) -> Adapter:
    """Return the function that adapts records to a feed of the target's feedtype and dialect."""
    is_url_feed = is_web(target.datasource, target.feedtype)
    rules = RuleTable(_rules(target, is_url_feed=is_url_feed))
    rules_for_alone = RuleTable(_rules_for_alone())
    refuse = _refuse_for_url_feed if is_url_feed else _refuse_for_content_feed

    def adapt(record: Record) -> Adapted:
        try:
            require_absolute_url(record)
            if record.action is _UPDATE_INDEX:
                action = record.action.value
                return (Filtered(code="update-index", url=record.url, action=action),), ()
            if record.action is _DELETE_PATTERN:
                return _expand_pattern(record, target), ()
            if record.acl is not None and record.acl.alone:
                if target.dialect == DIALECT_5_0:
                    raise _alone_in_5_0()
                return rules_for_alone.apply(record, target)
            refuse(record, target)
            return rules.apply(record, target)
        except RecordError as exc:
            return rejected(record, exc)

    return adapt


def _rules(target: Target, *, is_url_feed: bool) -> list[RuleOf]:
    is_5_0 = target.dialect == DIALECT_5_0
    arrive = (
        RuleOf(_crawl, is_needed=_is_not_crawled)
        if is_url_feed
        else RuleOf(_push, is_needed=_is_not_pushed)
    )
    return [
        *_rules_for_alone(),
        RuleOf(_secure_as_authmethod, fields=("crawl",), is_needed=_is_secure_stated),
        *([] if is_url_feed else [RuleOf(body_as_content, fields=("body",))]),
        RuleOf(_drop_charset, fields=("charset",)),
        arrive,
        *(adapt_dialect_5.FIRST_RULES if is_5_0 else ()),
        RuleOf(_drop_empty_texts, fields=_TEXTS),
        RuleOf(texts_as_metadata, fields=_TEXTS),
        RuleOf(fields_as_metadata, fields=("fields",)),
        *([RuleOf(_lose_metadata)] if target.datasource == "web" else []),
        RuleOf(_fill_metadata, is_needed=_has_empty_metadata),
        *(adapt_dialect_5.LAST_RULES if is_5_0 else ()),
        RuleOf(_state_mimetype, is_needed=lambda record: record.mimetype is None),
    ]


def _rules_for_alone() -> list[RuleOf]:
    return [
        RuleOf(_close_empty_acl, fields=("acl",), is_needed=_has_empty_acl),
        RuleOf(_fit_parent, fields=("acl",), is_needed=_has_parent),
        RuleOf(lambda draft, _: lose_fields(draft, _UNHELD_FIELDS), fields=_UNHELD_FIELDS),
        RuleOf(
            lambda draft, _: lose_hints(draft, _UNHELD_HINTS),
            fields=("crawl",),
            is_needed=_has_unheld_hints,
        ),
        RuleOf(lambda draft, _: lose_history(draft), fields=("history",)),
        RuleOf(
            lambda draft, _: lose_doubtful_values(draft),
            fields=("crawl", "extras"),
            is_needed=_has_doubtful_values,
        ),
        RuleOf(lambda draft, _: lose_extras(draft, _HELD_PLACES), fields=("extras",)),
    ]


# Records that a feed cannot hold


def _expand_pattern(record: Record, target: Target) -> tuple[Outcome, ...]:
    """Return a deletion for each known url that the pattern covers; feeds have no patterns."""
    if not target.known_urls:
        raise RecordError(
            "delete-pattern",
            f"a deletion of all urls like {record.url!r}; expected one of a url, as a gsafeed has"
            " no patterns; --known-urls lists the urls that patterns are matched with",
        )
    pattern = _compile(record.url)
    urls = [url for url in target.known_urls if pattern.fullmatch(url)]
    if not urls:
        return (Filtered(code="no-known-url", url=record.url, action=record.action.value),)
    deletion = Record(
        url="",
        action=Action.DELETE,
        mimetype=IGNORED_MIMETYPE,
        provenance=record.provenance,
    )
    return tuple(replace(deletion, url=url) for url in urls)


@lru_cache(maxsize=16)
def _compile(pattern: str) -> re.Pattern[str]:
    """Only `*` is a wildcard: `?` and `[` occur in urls."""
    return re.compile(".*".join(map(re.escape, pattern.split("*"))), re.DOTALL)


def _alone_in_5_0() -> RecordError:
    return RecordError(
        "acl-alone",
        "an ACL without a document; expected a document, as metadata holds the ACLs of the 5.0"
        " dialect; --dialect 7.x holds it",
    )


def _refuse_for_content_feed(record: Record, target: Target) -> None:
    if record.action is _UPDATE:
        _refuse_update(record, target)
    elif record.action is _ADD and record.content is None and record.body is None:
        crawled = " that is to be crawled" if record.arrival is Arrival.CRAWLED else ""
        raise RecordError(
            "no-content",
            f"a document{crawled}, without content; expected content, as the appliance does not"
            " crawl for a content feed; --feedtype metadata-and-url makes a feed that it crawls",
        )


def _refuse_update(record: Record, target: Target) -> None:
    if target.feedtype == FULL:
        raise RecordError(
            "update-in-full-feed",
            "a partial update; expected whole documents, as a full feed replaces all that its"
            " datasource had; --feedtype incremental makes a feed that holds it",
        )
    if target.dialect == DIALECT_5_0:
        raise RecordError(
            "partial-update",
            "a partial update; expected a whole document, as an appliance of release 5.0 replaces"
            " all of a document; --dialect 7.x holds it",
        )
    held = (record.content, record.body, record.acl)
    if not record.metadata and all(part is None for part in held):
        raise RecordError(
            "partial-update",
            "an update of single fields; expected content, metadata or an ACL, as a feed replaces"
            " each of them as a whole",
        )


def _refuse_for_url_feed(record: Record, target: Target) -> None:
    if record.action is not _UPDATE:
        return
    metadata = () if target.datasource == "web" else record.metadata
    if not metadata and record.acl is None:
        raise RecordError(
            "partial-update",
            "an update of single fields; expected metadata of a metadata-and-url feed, or an ACL",
        )


# Rules


def _has_empty_acl(record: Record) -> bool:
    acl = record.acl
    return acl is not None and not acl.principals and not acl.inherit_from


def _close_empty_acl(draft: Draft, _target: Target) -> None:
    """Put a denial into an ACL without principals: an appliance would take it for no ACL."""
    acl = draft.record.acl
    if acl is not None and not is_deletion(draft.record):
        draft.change(acl=replace(acl, principals=(adapt_dialect_5.NOBODY,)))


def _has_parent(record: Record) -> bool:
    acl = record.acl
    return acl is not None and (acl.inherit_from, acl.inherit_fragment) != (None, None)


def _fit_parent(draft: Draft, _target: Target) -> None:
    """State the parent of an ACL as the reader does: a URL, or a URL and a fragment."""
    acl = draft.record.acl
    if acl is None:
        return
    parent = join_parent(acl.inherit_from, acl.inherit_fragment)
    if parent is None:
        where = "" if acl.inherit_from is None else f", {acl.inherit_from!r}, which has one already"
        draft.lose("acl", f"fragment {acl.inherit_fragment!r} of what it inherits from{where}")
        parent = acl.inherit_from
    url, fragment = (None, None) if parent is None else split_parent(parent)
    if (url, fragment) != (acl.inherit_from, acl.inherit_fragment):
        draft.change(acl=replace(acl, inherit_from=url, inherit_fragment=fragment))


def _has_unheld_hints(record: Record) -> bool:
    return record.crawl is not None and _unheld_hints(record.crawl) != _NO_UNHELD_HINTS


def _has_doubtful_values(record: Record) -> bool:
    return bool(record.extras) or next(doubtful_ranks(record), None) is not None


def _is_secure_stated(record: Record) -> bool:
    return record.crawl is not None and record.crawl.secure is not None


def _secure_as_authmethod(draft: Draft, _target: Target) -> None:
    """State that a document is secure as an authmethod; the more secure of both wins."""
    crawl = draft.record.crawl
    if crawl is None:
        return
    authmethod = crawl.authmethod or Authmethod.NONE
    if crawl.secure and authmethod is Authmethod.NONE:
        authmethod = Authmethod.HTTPBASIC
    draft.change(crawl=replace(crawl, secure=None, authmethod=authmethod))


def _drop_charset(draft: Draft, _target: Target) -> None:
    """Drop the charset of content that is UTF-8 or states its charset itself; else it is a loss."""
    record, content = draft.record, draft.record.content
    if record.charset is None:
        return
    states_charset = (
        content is not None
        and content.encoding is Encoding.NONE
        and charset.declares_charset(content.data, mimetype=record.mimetype or "")
    )
    if content is None or not (record.charset.lower() in _UTF_8 or states_charset):
        draft.lose("charset", repr(record.charset))
    draft.change(charset=None)


def _is_not_pushed(record: Record) -> bool:
    return record.arrival is not _PUSHED and (record.action is _ADD or record.action is _UPDATE)


def _push(draft: Draft, _target: Target) -> None:
    draft.change(arrival=Arrival.PUSHED)


def _is_not_crawled(record: Record) -> bool:
    if record.content is not None or record.body is not None or record.action is _UPDATE:
        return True
    return record.action is _ADD and record.arrival is not _CRAWLED


def _crawl(draft: Draft, _target: Target) -> None:
    """Drop content, which the appliance fetches. The metadata of an update replaces all others."""
    lose_content(draft)
    if not is_deletion(draft.record):
        draft.change(action=Action.ADD, arrival=Arrival.CRAWLED)


def _lose_metadata(draft: Draft, _target: Target) -> None:
    metadata = draft.record.metadata
    if metadata:
        for field in ("acl", "metadata"):
            lost = dict.fromkeys(repr(meta.name) for meta in metadata if field_of(meta) == field)
            if lost:
                draft.lose(field, f"{', '.join(lost)}: a web feed has none")
        draft.change(metadata=())


def _drop_empty_texts(draft: Draft, _target: Target) -> None:
    """Drop an empty title: as metadata it would be a pair without a value."""
    record = draft.record
    empty = [name for name in ("title", "description", "keywords") if getattr(record, name) == ""]
    if empty:
        draft.change(**dict.fromkeys(empty))
    if "" in record.categories:
        draft.change(categories=tuple(filter(None, record.categories)))


def _has_empty_metadata(record: Record) -> bool:
    for meta in record.metadata:  # noqa: SIM110 - a generator costs as much as all other checks
        if not (meta.name and (meta.value or meta.data)):
            return True
    return False


def _fill_metadata(draft: Draft, target: Target) -> None:
    """Drop or fill empty values: an appliance refuses the whole record ("Misplaced metadata")."""
    filled = [_filled(draft, meta, target) for meta in draft.record.metadata]
    draft.change(metadata=tuple(meta for meta in filled if meta is not None))


def _filled(draft: Draft, meta: Meta, target: Target) -> Meta | None:
    if not meta.name:
        draft.lose("metadata", "a value without a name")
        return None
    if meta.value or meta.data:
        return meta
    if target.empty_metadata == "placeholder":
        draft.lose(field_of(meta), f"empty value of {meta.name!r} replaced")
        return Meta(meta.name, target.placeholder)
    draft.lose(field_of(meta), f"empty value of {meta.name!r}")
    return None


def _state_mimetype(draft: Draft, target: Target) -> None:
    record = draft.record
    if record.content is None or is_deletion(record):
        draft.change(mimetype=IGNORED_MIMETYPE)
        return
    mimetype = _guess(record.url) or target.default_mimetype
    if mimetype is None:
        raise RecordError(
            "mimetype-missing",
            "content without a mimetype, and a url whose extension tells none; expected one, as"
            " the appliance requires it; --default-mimetype gives one to all such documents",
        )
    draft.change(mimetype=mimetype)


def _guess(url: str) -> str | None:
    """Return the mimetype of the url's extension, None for an extension of a compression."""
    try:
        path = urlsplit(url).path
    except ValueError:  # brackets without an address
        return None
    mimetype = type_of_name(unquote(path.rpartition("/")[2]))
    return None if is_archive_type(mimetype) else mimetype
