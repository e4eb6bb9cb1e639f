"""Adapt records to gsafeeds: content feeds, web feeds and metadata-and-url feeds.

**Spec:** Feeds Protocol Developer's Guide 7.x, "Defining the XML Record for a Document",
"Choosing the Feed Type", "Adding Metadata Information to a Record". For the 5.0 dialect, which has
fewer elements and attributes: guide 5.0, "Google Search Appliance Feed DTD"; guide 7.x, "Legacy
Metadata Format (Deprecated)".
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from operator import attrgetter
from urllib.parse import unquote, urlsplit

import pybase64
from msgspec.structs import replace

from schemas.acl import Access, Acl, Principal, Scope
from schemas.choices import DIALECT_5_0
from schemas.content import decode
from schemas.errors import RecordError
from schemas.feed import FULL, is_web
from schemas.record import Action, Arrival, Authmethod, Content, Crawl, Encoding, Meta, Record
from transforms import charset
from transforms.formats.adapt_rules import (
    Draft,
    RuleOf,
    RuleTable,
    body_as_content,
    field_of,
    fields_as_metadata,
    filtered,
    is_deletion,
    lose_acl,
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
from transforms.formats.base import Adapted, Adapter, Outcome, Target
from transforms.formats.gsa.acl import BLANKS, is_acl_name, join_parent, metadata_of, split_parent
from transforms.formats.xml.serializer import holds
from transforms.mimetype_table import is_archive_type, type_of_name
from transforms.values import FEEDRANKS, PAGERANKS

IGNORED_MIMETYPE = "text/plain"
"""The DTD requires a mimetype where the appliance ignores it; deployed connectors write this."""

NOBODY = Principal(name="google:fakeUserToPreventMissingAcl", scope=Scope.USER, access=Access.DENY)
"""The principal of an ACL without others: an appliance takes an ACL without principals for none.

The adaptor library sends the same one.
"""

_TEXTS = ("title", "description", "keywords", "categories")
_UNHELD_FIELDS = ("size", "visited", "next_check")
_UNHELD_HINTS = ("no_index", "no_follow", "no_archive", "anchors")
_unheld_hints = attrgetter("secure", *_UNHELD_HINTS)
_NO_UNHELD_HINTS = _unheld_hints(Crawl())
_HELD_PLACES = ("record/", "group/", "acl/")
_UNHELD_HINTS_5_0 = ("crawl_immediately", "crawl_once", "feedrank", "scoring")
_HELD_PLACES_5_0 = ("record/", "group/")
_DEFAULT_NAMESPACES = (None, "Default")
_UTF_8 = ("utf-8", "utf8")
# A look-up in the enum costs ten times as much.
_ADD, _UPDATE = Action.ADD, Action.UPDATE
_PUSHED, _CRAWLED = Arrival.PUSHED, Arrival.CRAWLED
_ZLIB_BASE64 = Encoding.ZLIB_BASE64
_UPDATE_INDEX, _DELETE_PATTERN = Action.UPDATE_INDEX, Action.DELETE_PATTERN


def adapter(target: Target) -> Adapter:
    """Return the function that adapts records to a feed of the target's feedtype and dialect."""
    is_url_feed = is_web(target.datasource, target.feedtype)
    arrival = Arrival.CRAWLED if is_url_feed else Arrival.PUSHED
    usual = Record(url="", action=Action.ADD, arrival=arrival)
    rules = RuleTable(_rules(target, is_url_feed=is_url_feed), usual=usual)
    rules_for_alone = RuleTable(_rules_for_alone())
    refuse = _refuse_for_url_feed if is_url_feed else _refuse_for_content_feed

    def adapt(record: Record) -> Adapted:
        try:
            if record.action is _UPDATE_INDEX:
                return filtered(record, "update-index"), ()
            if record.action is _DELETE_PATTERN:
                return _expand_pattern(record, target), ()
            require_absolute_url(record)
            if record.acl is not None and record.acl.alone:
                if target.dialect == DIALECT_5_0:
                    raise RecordError(
                        "acl-alone",
                        "an ACL without a document; expected a document, as metadata holds the ACLs"
                        " of the 5.0 dialect; --dialect 7.x holds it",
                    )
                return rules_for_alone.apply(record, target)
            refuse(record, target)
            (record,), losses = rules.apply(record, target)
            if record.mimetype is None:
                record = replace(record, mimetype=_mimetype_of(record, target))
            return (record,), losses
        except RecordError as exc:
            return rejected(record, exc)

    return adapt


def refuse_documents(_target: Target) -> Adapter:
    """Return the adapter to groups feeds, which rejects every document."""
    reason = "a document; expected a group with its members, as nothing else is in a groups feed"
    return lambda record: rejected(record, RecordError("no-membership", reason))


def _rules(target: Target, *, is_url_feed: bool) -> list[RuleOf]:
    is_5_0 = target.dialect == DIALECT_5_0
    return [
        *_rules_for_alone(),
        *([] if is_url_feed else [RuleOf(body_as_content, fields=("body",))]),
        RuleOf(_drop_charset, fields=("charset",)),
        RuleOf(_crawl, fields=("action", "arrival", "body", "content"), is_needed=_is_not_crawled)
        if is_url_feed
        else RuleOf(_push, is_needed=_is_not_pushed),
        *(_FIRST_RULES_5_0 if is_5_0 else ()),
        RuleOf(_drop_empty_texts, fields=_TEXTS, is_needed=_has_empty_text),
        RuleOf(texts_as_metadata, fields=_TEXTS),
        RuleOf(fields_as_metadata, fields=("fields",)),
        *([RuleOf(_lose_metadata)] if target.datasource == "web" else []),
        RuleOf(_fill_metadata, is_needed=_has_empty_metadata),
        *([RuleOf(_lose_binary_metadata)] if is_5_0 else []),
    ]


def _rules_for_alone() -> list[RuleOf]:
    """Return the rules; many records have an ACL or hints, so their rules ask for more."""
    return [
        RuleOf(_fit_acl, is_needed=_is_acl_unfit),
        RuleOf(lambda draft, _: lose_fields(draft, _UNHELD_FIELDS), fields=_UNHELD_FIELDS),
        RuleOf(lambda draft, _: lose_history(draft), fields=("history",)),
        RuleOf(_fit_hints, is_needed=_are_hints_unfit),
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
        return filtered(record, "no-known-url")
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


def _is_acl_unfit(record: Record) -> bool:
    acl = record.acl
    if acl is None:
        return False
    parent = acl.inherit_from
    return (
        acl.inherit_fragment is not None
        or not (acl.principals or parent)
        or (parent is not None and "?" in parent)
    )


def _fit_acl(draft: Draft, _target: Target) -> None:
    """State the parent as the reader does: a URL, or a URL and a fragment.

    An ACL without principals and parent gets a denial: an appliance would take it for no ACL.
    """
    acl = draft.record.acl
    if acl is None:
        return
    principals, parent = acl.principals, join_parent(acl.inherit_from, acl.inherit_fragment)
    if not (principals or acl.inherit_from or is_deletion(draft.record)):
        principals = (NOBODY,)
    if parent is None and acl.inherit_fragment is not None:
        where = "" if acl.inherit_from is None else f", {acl.inherit_from!r}, which has one already"
        draft.lose("acl", f"fragment {acl.inherit_fragment!r} of what it inherits from{where}")
        parent = acl.inherit_from
    url, fragment = (None, None) if parent is None else split_parent(parent)
    fitted = replace(acl, principals=principals, inherit_from=url, inherit_fragment=fragment)
    draft.change(acl=fitted)


def _are_hints_unfit(record: Record) -> bool:
    crawl = record.crawl
    if record.extras:
        return True
    return crawl is not None and (
        _unheld_hints(crawl) != _NO_UNHELD_HINTS
        or (crawl.pagerank is not None and crawl.pagerank not in PAGERANKS)
        or (crawl.feedrank is not None and crawl.feedrank not in FEEDRANKS)
    )


def _fit_hints(draft: Draft, _target: Target) -> None:
    """Lose what no feed states; state that a document is secure as an authmethod.

    The more secure of both wins.
    """
    lose_hints(draft, _UNHELD_HINTS)
    lose_doubtful_values(draft)
    crawl = draft.record.crawl
    if crawl is not None and crawl.secure is not None:
        authmethod = crawl.authmethod or Authmethod.NONE
        if crawl.secure and authmethod is Authmethod.NONE:
            authmethod = Authmethod.HTTPBASIC
        draft.change(crawl=replace(crawl, secure=None, authmethod=authmethod))


def _drop_charset(draft: Draft, _target: Target) -> None:
    """Drop the charset of content that is UTF-8 or states its charset itself; else it is a loss."""
    record, content = draft.record, draft.record.content
    if record.charset is None:
        return
    if content is None or not (record.charset.lower() in _UTF_8 or _declares_charset(record)):
        draft.lose("charset", repr(record.charset))
    draft.change(charset=None)


def _declares_charset(record: Record) -> bool:
    content, mimetype = record.content, record.mimetype or ""
    if content is None or content.encoding is not Encoding.NONE:
        return False
    return charset.declares_charset(content.data, mimetype=mimetype)


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


def _has_empty_text(record: Record) -> bool:
    return "" in (record.title, record.description, record.keywords, *record.categories)


def _drop_empty_texts(draft: Draft, _target: Target) -> None:
    """Drop an empty title: as metadata it would be a pair without a value."""
    record = draft.record
    empty = [name for name in ("title", "description", "keywords") if getattr(record, name) == ""]
    categories = tuple(filter(None, record.categories))
    draft.change(**dict.fromkeys(empty), categories=categories)


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


def _mimetype_of(record: Record, target: Target) -> str:
    if record.content is None or is_deletion(record):
        return IGNORED_MIMETYPE
    mimetype = _guess(record.url) or target.default_mimetype
    if mimetype is None:
        raise RecordError(
            "mimetype-missing",
            "content without a mimetype, and a url whose extension tells none; expected one, as"
            " the appliance requires it; --default-mimetype gives one to all such documents",
        )
    return mimetype


def _guess(url: str) -> str | None:
    """Return the mimetype of the url's extension, None for an extension of a compression."""
    try:
        path = urlsplit(url).path
    except ValueError:  # brackets without an address
        return None
    mimetype = type_of_name(unquote(path.rpartition("/")[2]))
    return None if is_archive_type(mimetype) else mimetype


# The 5.0 dialect


def _lose_unheld(draft: Draft, _target: Target) -> None:
    lose_hints(draft, _UNHELD_HINTS_5_0)
    crawl = draft.record.crawl
    if crawl is not None and crawl.authmethod is Authmethod.NEGOTIATE:
        draft.lose("acl", "the authmethod NEGOTIATE")  # also with an ACL: 5.0 may ignore it
        lose_hints(draft, ("authmethod",))
    lose_fields(draft, ("overwrite_acls",))
    lose_extras(draft, _HELD_PLACES_5_0)


def _acl_as_metadata(draft: Draft, target: Target) -> None:
    """Write the ACL as google:acl* metadata, after the record's own.

    If no part of the ACL can be written, the document is closed to everyone.
    """
    acl = draft.record.acl
    if acl is None:
        return
    if target.datasource == "web":
        lose_acl(draft)
        return
    for detail in _unholdable(acl):
        draft.lose("acl", detail)
    principals = tuple(filter(_is_holdable, acl.principals))
    parent = acl.inherit_from if _has_holdable_parent(acl) else None
    fragment = None if parent is None else acl.inherit_fragment
    held = replace(
        acl,
        principals=principals if principals or parent else (NOBODY,),
        inherit_from=parent,
        inherit_fragment=fragment,
    )
    others = []
    for meta in draft.record.metadata:
        if is_acl_name(meta.name):  # a second ACL: with it, the first would permit more
            draft.lose("acl", f"metadata {meta.name!r} beside an ACL")
        else:
            others.append(meta)
    draft.change(acl=None, metadata=(*others, *metadata_of(held)))


def _is_zipped(record: Record) -> bool:
    return record.content is not None and record.content.encoding is _ZLIB_BASE64


def _unzip_content(draft: Draft, target: Target) -> None:
    if (content := draft.record.content) is not None:
        document = decode(content, max_bytes=target.max_content_bytes)
        draft.change(content=Content(pybase64.b64encode(document), Encoding.BASE64))


def _lose_binary_metadata(draft: Draft, _target: Target) -> None:
    """Drop the pairs that need base64, which the dialect does not have."""
    metadata = draft.record.metadata
    kept = tuple(meta for meta in metadata if _is_text(meta))
    if len(kept) == len(metadata):
        return
    for meta in metadata:
        if not _is_text(meta):
            draft.lose(field_of(meta), f"{meta.name!r}, that XML cannot hold")
    draft.change(metadata=kept)


_FIRST_RULES_5_0 = (
    RuleOf(_lose_unheld, fields=("crawl", "overwrite_acls", "extras")),
    RuleOf(_acl_as_metadata, fields=("acl",)),
    RuleOf(_unzip_content, is_needed=_is_zipped),
)


def _unholdable(acl: Acl) -> Iterator[str]:
    for principal in acl.principals:
        if principal.namespace not in _DEFAULT_NAMESPACES:
            yield f"namespace {principal.namespace!r} of {principal.name!r}"
        if principal.case_sensitive is False:
            yield f"{principal.name!r} in letters of any case"
        if principal.unqualified:
            yield f"{principal.name!r} being unqualified"
        if not holds(principal.name):
            yield f"{principal.name!r}, that XML cannot hold"
    if not _has_holdable_parent(acl):
        yield f"what it inherits from, {acl.inherit_from!r}, that XML cannot hold"


def _is_holdable(principal: Principal) -> bool:
    """Whether a principal may lose its namespace: a denial may, a permit must not."""
    if not principal.name.strip(BLANKS) or not holds(principal.name):
        return False
    return principal.namespace in _DEFAULT_NAMESPACES or principal.access is Access.DENY


def _has_holdable_parent(acl: Acl) -> bool:
    return acl.inherit_from is None or holds(acl.inherit_from)


def _is_text(meta: Meta) -> bool:
    return meta.data is None and holds(meta.name) and holds(meta.value)
