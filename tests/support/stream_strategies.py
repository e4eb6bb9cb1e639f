"""Hypothesis strategies for what command streams hold, as hostile as they may be."""

from datetime import UTC, datetime, timedelta

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from feedferry.schemas.acl import Access, Acl, Inheritance, Principal, Scope
from feedferry.schemas.record import Action, Anchor, Arrival, Content, Crawl, Extra, Meta, Record

_AWKWARD = "\0\n\r\t =*#~[]\\@/\x1f\x85\u2028\ufeff\u00e9\U0001f600"
_WHOLE = ("", "id-list", "id=", "id=x", "=", "content", "lock", "repository-unavailable=x", "\n\n")
_TRIMMED = "".join(map(chr, range(0x21)))
_URLS = ("", "a", "http://example.com/a%20b?c=d#e", "mailto:joe@example.com", "/caf\u00e9")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
DELIMITERS = ("\0", "\n", "~", ",", "**", "#~#", "\r\n", "\r", "\u00e9", "***", "\n\n")

_flags = st.none() | st.booleans()


def hostile_texts(*, max_size: int = 8) -> SearchStrategy[str]:
    """Ids and values: commands, delimiters of every kind, and any Unicode text."""
    chars = st.one_of(st.sampled_from(_AWKWARD), st.characters(exclude_categories=["Cs"]))
    return st.one_of(st.sampled_from(_WHOLE), st.text(chars, max_size=max_size))


def contents() -> SearchStrategy[bytes]:
    """Contents with all byte values, delimiters and commands."""
    whole = (b"", bytes(range(256)), b"\nid=x\ncontent\n", b"\xc0\x80\xc0\x8a", b"*#~\r\n\0")
    return st.one_of(st.sampled_from(whole), st.binary(max_size=24))


def whole_seconds() -> SearchStrategy[datetime]:
    """Moments of the years 1 to 9999, before 1970 too."""
    seconds = st.integers(-62135596800, 253402300799) | st.integers(0, 2_000_000_000)
    return seconds.map(lambda item: _EPOCH + timedelta(seconds=item))


def unknown_extras() -> SearchStrategy[tuple[Extra, ...]]:
    """Unknown commands, with and without arguments."""
    name = st.sampled_from(("x", "Lock", "id ", "\u00e9", "meta\r", "ID"))
    bare = name.map(lambda item: Extra(f"stream/{item}", ""))
    stated = st.builds(lambda item, value: Extra(f"stream/{item}=", value), name, hostile_texts())
    return st.lists(bare | stated, max_size=2).map(tuple)


def listings() -> SearchStrategy[list[Record]]:
    """Records as a lister has them; some that say nothing but their id follow each other."""
    return st.lists(_listed() | _bare() | _bare(), max_size=12)


def documents() -> SearchStrategy[Record]:
    """A record as a retriever has it."""
    return st.builds(
        Record,
        url=hostile_texts(),
        action=st.just(Action.ADD),
        arrival=st.just(Arrival.PUSHED),
        content=contents().map(Content),
        mimetype=st.none() | hostile_texts(),
        metadata=st.lists(
            st.builds(Meta, hostile_texts(), hostile_texts()), max_size=3, unique=True
        ).map(tuple),
        modified=st.none() | whole_seconds(),
        acl=st.none() | acls(),
        crawl=_document_hints(),
        extras=_document_extras(),
    )


def acls() -> SearchStrategy[Acl]:
    """ACLs as a retriever has them: one rule of case for all, no principal twice."""
    parents = st.one_of(
        st.just((None, None)), st.tuples(hostile_texts(), st.none() | hostile_texts())
    )
    return st.builds(_acl, st.none() | st.sampled_from(Inheritance), parents, _principals())


def answers() -> SearchStrategy[list[Record]]:
    """What an authorizer answers, each id once."""
    status = st.none() | st.sampled_from(("PERMIT", "DENY", "INDETERMINATE"))
    item = st.builds(_answer, hostile_texts(), status)
    return st.lists(item, max_size=5, unique_by=lambda record: record.url)


def questions() -> SearchStrategy[list[Record]]:
    """What an authorizer is asked, of several users."""
    groups = st.lists(hostile_texts(), max_size=2)
    item = st.builds(_question, hostile_texts(), st.sampled_from(("ann", "ben", "")), groups)
    return st.lists(item, max_size=5, unique_by=lambda record: (record.url, record.extras))


def _bare() -> SearchStrategy[Record]:
    return hostile_texts().map(
        lambda docid: Record(url=docid, action=Action.ADD, arrival=Arrival.CRAWLED)
    )


@st.composite
def _listed(draw: st.DrawFn) -> Record:
    action = draw(st.sampled_from((Action.ADD, Action.DELETE)))
    true = st.none() | st.just(True)
    hints = Crawl(
        lock=draw(true),
        crawl_immediately=draw(true),
        crawl_once=draw(true),
        display_url=draw(st.none() | st.sampled_from(_URLS)),
    )
    return Record(
        url=draw(hostile_texts()),
        action=action,
        arrival=Arrival.CRAWLED if action is Action.ADD else None,
        modified=draw(st.none() | whole_seconds()),
        crawl=None if hints == Crawl() else hints,
        extras=draw(unknown_extras()),
    )


def _document_hints() -> SearchStrategy[Crawl | None]:
    anchor = st.builds(Anchor, st.sampled_from(_URLS), st.none() | hostile_texts())
    hints = st.builds(
        Crawl,
        lock=_flags,
        crawl_once=_flags,
        secure=_flags,
        no_index=_flags,
        no_follow=_flags,
        no_archive=_flags,
        display_url=st.none() | st.sampled_from(_URLS),
        anchors=st.lists(anchor, max_size=2).map(tuple),
    )
    return hints.map(lambda item: None if item == Crawl() else item)


def _document_extras() -> SearchStrategy[tuple[Extra, ...]]:
    param = st.builds(Extra, hostile_texts().map("stream/param/{}".format), hostile_texts())
    params = st.lists(param, max_size=2).map(tuple)
    return st.builds(lambda item, other: item + other, params, unknown_extras())


@st.composite
def _principals(draw: st.DrawFn) -> tuple[Principal, ...]:
    case = draw(_flags)
    plain = st.text(st.sampled_from("ab=*\0\n\u00e9"), min_size=1, max_size=4)
    name = plain.map(lambda item: item.strip(_TRIMMED)).filter(bool)
    item = st.builds(
        Principal,
        name=name,
        scope=st.sampled_from(Scope),
        access=st.sampled_from(Access),
        case_sensitive=st.just(case),
        namespace=st.just(draw(st.sampled_from((None, "Default", "", "\n", "a=b")))),
    )
    return tuple(draw(st.lists(item, max_size=3, unique=True)))


def _acl(
    inheritance: Inheritance | None,
    parent: tuple[str | None, str | None],
    principals: tuple[Principal, ...],
) -> Acl:
    url, fragment = parent
    return Acl(
        inheritance=inheritance, inherit_from=url, inherit_fragment=fragment, principals=principals
    )


def _answer(docid: str, status: str | None) -> Record:
    extras = () if status is None else (Extra("stream/authz-status", status),)
    return Record(url=docid, action=Action.UPDATE, extras=extras)


def _question(docid: str, username: str, groups: list[str]) -> Record:
    asked = [Extra("stream/username", username), *(Extra("stream/group", item) for item in groups)]
    return Record(url=docid, action=Action.UPDATE, extras=tuple(asked))
