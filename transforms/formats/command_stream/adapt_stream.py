"""Adapt records to the command streams of listers, retrievers and authorizers.

**Spec:** GSA adaptor library, CommandStreamParser, "Lister Commands", "Retriever Commands",
"Authorizer Commands".

Not a loss, and left to the encoders: crawl flags of a listing that are false, and the namespace
`Default`, because a stream without them means the same; fractions of a second; how a record
arrives. Blanks around the name of a principal are no loss either: the deployed parser removes them.
"""

import re
from functools import partial

from msgspec.structs import replace

from feedferry.schemas.acl import Access, Principal
from feedferry.schemas.errors import RecordError
from feedferry.schemas.record import Action, Extra, Meta, Record
from feedferry.transforms.formats.command_stream.stream_formats import (
    ANSWER,
    DOCUMENT,
    LISTING,
    NO_ANSWER,
)
from feedferry.transforms.formats.command_stream.syntax import TRIMMED
from feedferry.transforms.formats.command_stream.vocabulary import (
    GROUP,
    PARAM,
    STATUS,
    STATUSES,
    USERNAME,
)
from feedferry.transforms.formats.command_stream.writer import unknown_command
from feedferry.transforms.formats.holding.adapt_rules import (
    Draft,
    counted,
    field_of,
    is_deletion,
    keep_extras,
)
from feedferry.transforms.formats.holding.hold import hold
from feedferry.transforms.formats.text.java_uri import is_uri

_CHARSET = re.compile(r""";\s*charset\s*=\s*"?([^\s;"]*)""", re.IGNORECASE)
_PARAMETER = re.compile(r"[\w.:+-]+", re.ASCII)


def _require_answer(record: Record) -> None:
    """Refuse what is no answer and no question; an id alone is an answer without a status."""
    bare = Record(url=record.url, action=Action.UPDATE, provenance=record.provenance)
    is_answer = any(extra.place in (STATUS, USERNAME) for extra in record.extras)
    if is_deletion(record) or not (is_answer or record == bare):
        raise RecordError(*NO_ANSWER)


def _fit_listing(draft: Draft) -> None:
    _lose_bad_urls(draft)
    _lose_other_extras(draft, keeps_params=False)


def _fit_document(draft: Draft) -> None:
    _lose_bad_urls(draft)
    _lose_other_extras(draft, keeps_params=True)
    _fit_metadata(draft)
    _charset_in_mimetype(draft)
    _fit_acl(draft)


def _lose_bad_urls(draft: Draft) -> None:
    """Drop URLs that Java refuses: the deployed parser stops at them."""
    crawl = draft.record.crawl
    if crawl is None or not (crawl.display_url or crawl.anchors):
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

    keep_extras(draft, is_kept)


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

    keep_extras(draft, is_kept)
    draft.change(action=Action.UPDATE)


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


lister_adapter = partial(hold, LISTING, fit=_fit_listing)
retriever_adapter = partial(hold, DOCUMENT, fit=_fit_document)
authorizer_adapter = partial(hold, ANSWER, refuse=_require_answer, fit=_keep_answer)
"""Make adapters to the entries of a listing, to documents, and to answers and questions."""
