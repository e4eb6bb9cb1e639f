"""Records as gsafeeds hold them: content feeds, web and metadata-and-url feeds.

**Spec:** Feeds Protocol Developer's Guide 7.x, "Defining the XML Record for a Document",
"Choosing the Feed Type", "Adding Metadata Information to a Record".
"""

import re
from functools import lru_cache
from urllib.parse import unquote, urlsplit

from msgspec.structs import replace

from schemas.acl import Acl
from schemas.errors import RecordError
from schemas.feed import FULL, is_web
from schemas.record import Action, Arrival, Authmethod, Crawl, Encoding, Meta, Record
from schemas.reject import Filtered
from transforms import charset
from transforms.formats.adapt_rules import (
    Draft,
    Rule,
    body_as_content,
    field_of,
    fields_as_metadata,
    is_alone,
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
    texts_of,
)
from transforms.formats.gsa.acl_parent import join_parent, split_parent
from transforms.formats.gsa.adapt_dialect_5 import FIRST_RULES, LAST_RULES, NOBODY
from transforms.formats.target import Adapted, Adapter, Outcome, Target
from transforms.mimetype_table import is_archive_type, type_of_name
from transforms.values import FEEDRANKS, PAGERANKS, is_absolute

IGNORED_MIMETYPE = "text/plain"
"""The DTD requires a mimetype where the appliance ignores it; deployed connectors write this."""

_UNHELD_FIELDS = ("size", "visited", "next_check")
_UNHELD_HINTS = ("no_index", "no_follow", "no_archive", "anchors")
_REWORKED = ("secure", *_UNHELD_HINTS)
_HELD_PLACES = ("record/", "group/", "acl/")
_UTF_8 = ("utf-8", "utf8")
# Looked up in their enums they cost ten times as much.
_ADD, _DELETE = Action.ADD, Action.DELETE
_PUSHED, _CRAWLED = Arrival.PUSHED, Arrival.CRAWLED


def adapter(target: Target) -> Adapter:
    """Return the function that adapts records to a feed of the target's feedtype and dialect."""
    web = is_web(target.datasource, target.feedtype)
    rules = _rules(target, web=web)
    refuse = _refuse_for_web if web else _refuse_for_content
    holds = _never if target.dialect == "5.0" else _held_by_web if web else _held_by_content
    only_urls = target.datasource == "web"

    def adapt(record: Record) -> Adapted:
        if not is_absolute(record.url):
            return _adapt_or_reject(record)
        if holds(record) and not (only_urls and record.metadata):
            return (_typed(record),), ()
        restated = _restated(record)
        if restated is not record and holds(restated) and not only_urls:
            return (_typed(restated),), ()
        return _adapt_or_reject(record)

    def _adapt_or_reject(record: Record) -> Adapted:
        try:
            require_absolute_url(record)
            return _adapt(record)
        except RecordError as exc:
            return rejected(record, exc)

    def _adapt(record: Record) -> Adapted:
        if record.action is Action.UPDATE_INDEX:
            return (Filtered(code="update-index", url=record.url, action=record.action.value),), ()
        if record.action is Action.DELETE_PATTERN:
            return _expanded(record, target), ()
        if is_alone(record):
            return _apply(_rules_for_alone(target), record, target)
        refuse(record, target)
        return _apply(rules, record, target)

    return adapt


def _apply(rules: tuple[Rule, ...], record: Record, target: Target) -> Adapted:
    draft = Draft(record)
    for rule in rules:
        rule(draft, target)
    return draft.finish()


def _rules(target: Target, *, web: bool) -> tuple[Rule, ...]:
    old = target.dialect == "5.0"
    return (
        _shut_empty_acl,
        _fit_parent,
        _secure_as_authmethod,
        _lose_unheld,
        *(() if web else (body_as_content,)),
        _lose_charset,
        _lose_content if web else _arrive_pushed,
        *(FIRST_RULES if old else ()),
        _drop_empty_texts,
        texts_as_metadata,
        fields_as_metadata,
        *((_lose_metadata,) if target.datasource == "web" else ()),
        _fill_metadata,
        *(LAST_RULES if old else ()),
        _state_mimetype,
    )


def _rules_for_alone(target: Target) -> tuple[Rule, ...]:
    if target.dialect == "5.0":
        raise RecordError(
            "acl-alone",
            "an ACL without a document; expected a document, as metadata holds the ACLs of the 5.0"
            " dialect; --dialect 7.x holds it",
        )
    return (_shut_empty_acl, _fit_parent, _lose_unheld)


def _typed(record: Record) -> Record:
    return record if record.mimetype is not None else replace(record, mimetype=IGNORED_MIMETYPE)


def _never(_record: Record) -> bool:
    return False


def _held_by_web(record: Record) -> bool:
    if record.action is not _DELETE and (
        record.action is not _ADD or record.arrival is not _CRAWLED
    ):
        return False
    return record.content is None and _is_plain(record)


def _held_by_content(record: Record) -> bool:
    if record.action is not _DELETE and (
        record.action is not _ADD
        or record.arrival is not _PUSHED
        or record.content is None
        or record.mimetype is None
    ):
        return False
    return _is_plain(record)


def _restated(record: Record) -> Record:
    """The record with its texts as metadata, and without what UTF-8 content need not say.

    The rules would do the same; this is quicker where a feed holds all the rest.
    """
    charset = record.charset
    if charset is not None and record.content is not None:
        if charset.lower() not in _UTF_8:
            return record
        charset = None
    texts = texts_of(record)
    if texts:
        return replace(
            record,
            charset=charset,
            title=None,
            description=None,
            keywords=None,
            categories=(),
            metadata=texts + record.metadata,
        )
    return record if charset is record.charset else replace(record, charset=charset)


def _is_plain(record: Record) -> bool:
    """Whether a feed has a place for all that it states, as it is."""
    acl = record.acl
    if acl is not None and (acl.alone or _is_empty(acl) or not _has_plain_parent(acl)):
        return False
    return (
        record.title is None
        and record.charset is None
        and record.description is None
        and record.keywords is None
        and record.body is None
        and record.size is None
        and record.visited is None
        and record.next_check is None
        and record.history is None
        and not (record.categories or record.fields or record.extras)
        and (record.crawl is None or _has_held_hints(record.crawl))
        and all_filled(record.metadata)
    )


def _has_held_hints(crawl: Crawl) -> bool:
    if crawl.pagerank is not None and crawl.pagerank not in PAGERANKS:
        return False
    if crawl.feedrank is not None and crawl.feedrank not in FEEDRANKS:
        return False
    return all(getattr(crawl, name) in (None, ()) for name in _REWORKED)


def all_filled(metadata: tuple[Meta, ...]) -> bool:
    """Whether no pair lacks its name or value."""
    for meta in metadata:  # noqa: SIM110 # a generator costs as much as the rest of the fast path
        if not (meta.name and (meta.value or meta.data)):
            return False
    return True


def _expanded(record: Record, target: Target) -> tuple[Outcome, ...]:
    """A deletion for each known url that the pattern covers: the protocol deletes no patterns."""
    if not target.known_urls:
        raise RecordError(
            "delete-pattern",
            f"a deletion of all urls like {record.url!r}; expected one of a url, as a gsafeed has"
            " no patterns; --known-urls lists the urls that patterns are matched with",
        )
    covered = _pattern(record.url)
    urls = [url for url in target.known_urls if covered.fullmatch(url)]
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
def _pattern(text: str) -> re.Pattern[str]:
    """Only `*` stands for other characters: `?` and `[` are of urls."""
    return re.compile(".*".join(map(re.escape, text.split("*"))), re.DOTALL)


def _refuse_for_content(record: Record, target: Target) -> None:
    if is_deletion(record):
        return
    if record.action is Action.UPDATE:
        _refuse_update(record, target)
    elif record.content is None and record.body is None:
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
    if target.dialect == "5.0":
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


def _refuse_for_web(record: Record, target: Target) -> None:
    if record.action is not Action.UPDATE:
        return
    metadata = () if target.datasource == "web" else record.metadata
    if not metadata and record.acl is None:
        raise RecordError(
            "partial-update",
            "an update of single fields; expected metadata of a metadata-and-url feed, or an ACL",
        )


def _is_empty(acl: Acl) -> bool:
    return not acl.principals and not acl.inherit_from


def _shut_empty_acl(draft: Draft, _target: Target) -> None:
    """It permits nobody, and must not look as if there were none."""
    acl = draft.record.acl
    if acl is not None and _is_empty(acl) and not is_deletion(draft.record):
        draft.change(acl=replace(acl, principals=(NOBODY,)))


def _secure_as_authmethod(draft: Draft, _target: Target) -> None:
    """A retriever says that a document is secure, a feed how to log in: the more secure wins."""
    crawl = draft.record.crawl
    if crawl is None or crawl.secure is None:
        return
    authmethod = crawl.authmethod or Authmethod.NONE
    if crawl.secure and authmethod is Authmethod.NONE:
        authmethod = Authmethod.HTTPBASIC
    draft.change(crawl=replace(crawl, secure=None, authmethod=authmethod))


def _lose_unheld(draft: Draft, _target: Target) -> None:
    lose_fields(draft, _UNHELD_FIELDS)
    lose_hints(draft, _UNHELD_HINTS)
    lose_history(draft)
    lose_doubtful_values(draft)
    lose_extras(draft, _HELD_PLACES)


def _fit_parent(draft: Draft, _target: Target) -> None:
    """State what an ACL inherits from as the reader does: a URL, or a URL and a fragment."""
    acl = draft.record.acl
    if acl is None or (acl.inherit_from is None and acl.inherit_fragment is None):
        return
    parent = join_parent(acl.inherit_from, acl.inherit_fragment)
    if parent is None:
        where = "" if acl.inherit_from is None else f", {acl.inherit_from!r}, which has one already"
        draft.lose("acl", f"fragment {acl.inherit_fragment!r} of what it inherits from{where}")
        parent = acl.inherit_from
    url, fragment = (None, None) if parent is None else split_parent(parent)
    if (url, fragment) != (acl.inherit_from, acl.inherit_fragment):
        draft.change(acl=replace(acl, inherit_from=url, inherit_fragment=fragment))


def _has_plain_parent(acl: Acl) -> bool:
    parent = acl.inherit_from
    if acl.inherit_fragment is not None:
        return False
    return parent is None or "?" not in parent or split_parent(parent)[1] is None


def _lose_charset(draft: Draft, _target: Target) -> None:
    """A feed's content is in UTF-8, or says itself what it is in."""
    record = draft.record
    if record.charset is None:
        return
    if record.content is None or not (record.charset.lower() in _UTF_8 or _tells(record)):
        draft.lose("charset", repr(record.charset))
    draft.change(charset=None)


def _tells(record: Record) -> bool:
    """Whether an appliance finds the charset in the document itself."""
    content = record.content
    if content is None or content.encoding is not Encoding.NONE:
        return False
    return charset.is_told(content.data, mimetype=record.mimetype or "")


def _arrive_pushed(draft: Draft, _target: Target) -> None:
    if draft.record.action in (Action.ADD, Action.UPDATE):
        draft.change(arrival=Arrival.PUSHED)


def _lose_content(draft: Draft, _target: Target) -> None:
    """The appliance fetches it. An update of metadata is a record as any: its pairs replace all."""
    lose_content(draft)
    if draft.record.action in (Action.ADD, Action.UPDATE):
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
    """An empty title is none; as metadata it would be a pair without a value."""
    record = draft.record
    empty = [name for name in ("title", "description", "keywords") if getattr(record, name) == ""]
    if empty:
        draft.change(**dict.fromkeys(empty))
    if "" in record.categories:
        draft.change(categories=tuple(filter(None, record.categories)))


def _fill_metadata(draft: Draft, target: Target) -> None:
    """The appliance refuses a whole record for one empty value ("Misplaced metadata")."""
    metadata = draft.record.metadata
    if not all_filled(metadata):
        filled = (_filled(draft, meta, target) for meta in metadata)
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
    if record.mimetype is not None:
        return
    if record.content is None or is_deletion(record):
        draft.change(mimetype=IGNORED_MIMETYPE)
        return
    mimetype = _guessed(record.url) or target.default_mimetype
    if mimetype is None:
        raise RecordError(
            "mimetype-missing",
            "content without a mimetype, and a url whose extension tells none; expected one, as"
            " the appliance requires it; --default-mimetype gives one to all such documents",
        )
    draft.change(mimetype=mimetype)


def _guessed(url: str) -> str | None:
    """What the extension stands for; not what is inside where it is one of a compression."""
    try:
        path = urlsplit(url).path
    except ValueError:  # brackets that hold no address
        return None
    mimetype = type_of_name(unquote(path.rpartition("/")[2]))
    return None if is_archive_type(mimetype) else mimetype
