"""Adapt records to the command streams of listers, retrievers and authorizers.

**Spec:** GSA adaptor library, CommandStreamParser, "Lister Commands", "Retriever Commands",
"Authorizer Commands".

Not a loss, and left to the encoders: crawl flags of a listing that are false, and the namespace
`Default`, because a stream without them means the same; fractions of a second; how a record
arrives. Blanks around the name of a principal are no loss either: the deployed parser removes them.
"""

import re
from collections.abc import Callable
from itertools import product
from operator import attrgetter

from msgspec.structs import replace

from schemas.acl import Access, Principal
from schemas.errors import RecordError
from schemas.record import Action, Authmethod, Crawl, Extra, Meta, Record
from transforms.formats.adapt_rules import (
    HINTS,
    Draft,
    body_as_content,
    counted,
    field_of,
    fields_as_metadata,
    filtered,
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
from transforms.formats.base import Adapted, Adapter, Target
from transforms.formats.command_stream.java_uri import is_uri
from transforms.formats.command_stream.syntax import (
    GROUP,
    PARAM,
    STATUS,
    STATUSES,
    TRIMMED,
    USERNAME,
)
from transforms.formats.command_stream.writer import unknown_command

_UNHELD_FIELDS = ("size", "visited", "next_check", "overwrite_acls")
_TEXTS = ("title", "description", "keywords")
_LISTED_FLAGS = ("lock", "crawl_immediately", "crawl_once")
_LISTED_HINTS = frozenset(
    Crawl(lock=lock, crawl_immediately=immediately, crawl_once=once)
    for lock, immediately, once in product((None, True), repeat=3)
)
"""Hints that a listing has, except a display URL. Most records have these: a look-up is fast."""
_UNLISTED_HINTS = tuple(name for name in HINTS if name not in (*_LISTED_FLAGS, "display_url"))
_UNRETRIEVED_HINTS = ("crawl_immediately", "authmethod", "pagerank", "feedrank", "scoring")
_document_fields = attrgetter(
    *("content", "body", "mimetype", "charset", "acl", "history", "categories", "fields"),
    *("metadata", *_UNHELD_FIELDS, *_TEXTS),
)
_NO_DOCUMENT = _document_fields(Record(url="", action=Action.ADD))
_NO_PATTERNS = "command streams have no patterns"
_CHARSET = re.compile(r""";\s*charset\s*=\s*"?([^\s;"]*)""", re.IGNORECASE)
_PARAMETER = re.compile(r"[\w.:+-]+", re.ASCII)


def _adapter(
    refuse: Callable[[Record], None], fit: Callable[[Draft], None], *, has_acls: bool = True
) -> Callable[[Target], Adapter]:
    """Return the `Format.adapter` of a stream: a check that may reject a record, and its rules."""
    update_index, delete_pattern = Action.UPDATE_INDEX, Action.DELETE_PATTERN

    def adapt(record: Record) -> Adapted:
        action = record.action
        if action is update_index:
            return filtered(record, "update-index"), ()
        try:
            if action is delete_pattern:
                found = f"a deletion by the pattern {record.url!r}"
                reason = f"{found}; expected a deletion of one URL, because {_NO_PATTERNS}"
                raise RecordError("delete-pattern", reason)
            draft = Draft(record)
            if has_acls and is_alone(record):
                return left_out(draft)
            refuse(record)
        except RecordError as exc:
            return rejected(record, exc)
        fit(draft)
        return draft.finish()

    return lambda _target: adapt


def _refuse_update(record: Record) -> None:
    if record.action is Action.UPDATE:
        raise RecordError(
            "partial-update",
            "an update of some fields; expected a whole document, as a command stream replaces all",
        )


def _refuse_without_content(record: Record) -> None:
    _refuse_update(record)
    if record.action is Action.ADD and record.content is None and record.body is None:
        raise RecordError(
            "no-content",
            "a URL to be crawled, without content; expected content;"
            " --to lister-stream lists URLs to be crawled",
        )


def _refuse_documents(record: Record) -> None:
    """Refuse all but answers and questions; an id alone is an answer without a status."""
    bare = Record(url=record.url, action=Action.UPDATE, provenance=record.provenance)
    is_answer = any(extra.place in (STATUS, USERNAME) for extra in record.extras)
    if is_deletion(record) or not (is_answer or record == bare):
        raise RecordError(
            "no-authz-status",
            "a document; expected an answer of an authorizer or a question to it, with an extra at"
            f" {STATUS} or {USERNAME}",
        )


def _fit_listing(draft: Draft) -> None:
    record = draft.record
    has_other_hints = record.crawl is not None and record.crawl not in _LISTED_HINTS
    if record.metadata or has_other_hints:
        lose_protection(draft)
    if _document_fields(record) != _NO_DOCUMENT:
        _lose_document(draft)
    if has_other_hints:
        lose_hints(draft, _UNLISTED_HINTS)
        _lose_bad_urls(draft)
    if record.extras:
        _lose_other_extras(draft, keeps_params=False)


def _fit_document(draft: Draft) -> None:
    if draft.record.body is not None:
        _body_as_utf8(draft)
    lose_fields(draft, _UNHELD_FIELDS)
    _authmethod_as_secure(draft)
    lose_hints(draft, _UNRETRIEVED_HINTS)
    lose_history(draft)
    _lose_bad_urls(draft)
    _lose_other_extras(draft, keeps_params=True)
    texts_as_metadata(draft)
    fields_as_metadata(draft)
    _fit_metadata(draft)
    _charset_in_mimetype(draft)
    _fit_acl(draft)


def _fit_answer(draft: Draft) -> None:
    lose_protection(draft)
    _lose_document(draft)
    lose_fields(draft, ("modified",))
    lose_hints(draft, HINTS)
    _keep_answer(draft)


def _lose_document(draft: Draft) -> None:
    """Drop the fields of a document that neither a listing nor an answer has."""
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


def _authmethod_as_secure(draft: Draft) -> None:
    """Express an authmethod as `secure`; if a record states both, the more secure one counts."""
    crawl = draft.record.crawl
    if crawl is not None and crawl.authmethod is not None:
        is_secure = bool(crawl.secure) or crawl.authmethod is not Authmethod.NONE
        draft.change(crawl=replace(crawl, secure=is_secure))


def _lose_bad_urls(draft: Draft) -> None:
    """Drop URLs that Java refuses: the deployed parser stops at them."""
    crawl = draft.record.crawl
    if crawl is None:
        return
    if crawl.display_url is not None and not is_uri(crawl.display_url):
        draft.lose("display-url", f"{crawl.display_url!r} is not a well-formed URL")
        crawl = replace(crawl, display_url=None)
    for anchor in crawl.anchors:
        if not is_uri(anchor.uri):
            draft.lose("anchors", f"{anchor.uri!r} is not a well-formed URL")
    anchors = tuple(anchor for anchor in crawl.anchors if is_uri(anchor.uri))
    draft.change(crawl=replace(crawl, anchors=anchors))


def _lose_other_extras(draft: Draft, *, keeps_params: bool) -> None:
    """Keep unknown commands, and the params of a retriever."""

    def is_kept(extra: Extra) -> bool:
        if extra.place.startswith(PARAM):
            return keeps_params
        return unknown_command(extra) is not None

    _keep_extras(draft, is_kept)


def _keep_extras(draft: Draft, is_kept: Callable[[Extra], bool]) -> None:
    extras = draft.record.extras
    lost = tuple(extra for extra in extras if not is_kept(extra))
    if lost:
        lose_each_extra(draft, lost)
        draft.change(extras=tuple(filter(is_kept, extras)))


def _keep_answer(draft: Draft) -> None:
    """Keep one user with its groups, and one status, in the order of a stream."""
    by_place: dict[str, Extra] = {}
    for extra in draft.record.extras:
        by_place.setdefault(extra.place, extra)
    user, status = by_place.get(USERNAME), by_place.get(STATUS)

    def is_kept(extra: Extra) -> bool:
        if extra.place == GROUP:
            return user is not None
        return extra is user or (extra is status and extra.value in STATUSES)

    _keep_extras(draft, is_kept)
    draft.change(action=Action.UPDATE)


def _body_as_utf8(draft: Draft) -> None:
    is_text = draft.record.body is not None and draft.record.content is None
    body_as_content(draft)
    if is_text:
        draft.change(charset="UTF-8")


def _charset_in_mimetype(draft: Draft) -> None:
    """Write the charset as a parameter of the mimetype: `text/html; charset=UTF-8`."""
    mimetype, charset = draft.record.mimetype, draft.record.charset
    if charset is None:
        return
    parameter = _CHARSET.search(mimetype or "")
    is_stated = parameter is not None and parameter[1].lower() == charset.lower()
    if mimetype and not parameter and _PARAMETER.fullmatch(charset):
        mimetype = f"{mimetype}; charset={charset}"
    elif not is_stated:
        draft.lose("charset", f"{charset!r}, but the mimetype is {mimetype!r}")
    draft.change(mimetype=mimetype, charset=None)


def _fit_metadata(draft: Draft) -> None:
    """Keep text, and each pair once, as the deployed parser does."""
    fitted: dict[Meta, None] = {}
    for meta in draft.record.metadata:
        try:
            text = meta if meta.data is None else Meta(meta.name, meta.data.decode())
        except UnicodeDecodeError:
            size = counted(len(meta.data or b""), "byte")
            draft.lose(field_of(meta), f"{meta.name!r}, {size} that are no text")
            continue
        if text in fitted:
            draft.lose("metadata", f"{meta.name!r} with the same value again")
        fitted[text] = None
    if tuple(fitted) != draft.record.metadata:
        draft.change(metadata=tuple(fitted))


def _fit_acl(draft: Draft) -> None:
    """Fit an ACL to the commands, which have one rule of case for all principals."""
    acl = draft.record.acl
    if acl is None:
        return
    fragment = acl.inherit_fragment
    if fragment is not None and acl.inherit_from is None:
        draft.lose("acl", f"fragment {fragment!r} of nothing to inherit from")
        fragment = None
    principals = tuple(filter(None, (_fit_principal(draft, each) for each in acl.principals)))
    principals = _unify_case(draft, principals)
    unique = tuple(dict.fromkeys(principals))
    draft.change(acl=replace(acl, inherit_fragment=fragment, principals=unique))


def _fit_principal(draft: Draft, principal: Principal) -> Principal | None:
    name = principal.name.strip(TRIMMED)
    if not name:
        draft.lose("acl", f"principal {principal.name!r} without a name")
        return None
    if principal.unqualified:
        draft.lose("acl", f"principal-type unqualified of {name!r}")
    return replace(principal, name=name, unqualified=False)


def _unify_case(draft: Draft, principals: tuple[Principal, ...]) -> tuple[Principal, ...]:
    """Apply one rule of case to all principals, one that denies at least as much as before.

    A principal that ignores case permits more and denies more. So all ignore case only if a denial
    ignores it.
    """
    if len({principal.case_sensitive for principal in principals}) < 2:
        return principals
    loose = [principal for principal in principals if principal.case_sensitive is False]
    is_sensitive = all(principal.access is Access.PERMIT for principal in loose)
    if loose:
        rule = "sensitive" if is_sensitive else "insensitive"
        draft.lose("acl", f"case sensitivity of some principals; all are {rule} now")
    return tuple(replace(principal, case_sensitive=is_sensitive) for principal in principals)


lister_adapter = _adapter(_refuse_update, _fit_listing)
retriever_adapter = _adapter(_refuse_without_content, _fit_document)
authorizer_adapter = _adapter(_refuse_documents, _fit_answer, has_acls=False)
