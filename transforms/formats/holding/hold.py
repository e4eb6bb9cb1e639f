"""The adapter of a format that declares what it holds, and the encoding of contents."""

from collections.abc import Callable

from msgspec.structs import replace

from feedferry.schemas.content import compress, decode, to_base64
from feedferry.schemas.errors import RecordError
from feedferry.schemas.patterns import compile_deletion
from feedferry.schemas.record import Action, Content, Encoding, Record
from feedferry.transforms.formats.base import (
    Adapted,
    Adapter,
    ContentOptions,
    Holds,
    Kind,
    Outcome,
    Target,
)
from feedferry.transforms.formats.holding.adapt_rules import Draft, filtered, left_out, rejected
from feedferry.transforms.formats.holding.losing import losing
from feedferry.transforms.formats.holding.refusals import KINDS, refusal_of, refuse_kind
from feedferry.transforms.formats.holding.values import is_absolute

# A look-up in the enum costs ten times as much.
_ADD, _UPDATE = Action.ADD, Action.UPDATE
_UPDATE_INDEX, _DELETE_PATTERN = Action.UPDATE_INDEX, Action.DELETE_PATTERN

_INEXACT = (
    "the decision of a chain of ACLs, in parts or layers; expected one ACL: convert the feeds that"
    " the decision was made of"
)


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
        for action, kinds in KINDS.items()
        if any(refusal_of(kind, holds, target) for kind in kinds)
    )
    leaves_out = not (holds.keeps_acls_alone or Kind.ALONE in holds.refuses)
    has_one_acl = "acl" in holds.fields and not holds.decisions
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
            if has_one_acl and acl is not None and acl.decision:
                raise RecordError("acl-inexact", _INEXACT)
            draft = Draft(record)
            if is_acl and leaves_out:
                return left_out(draft)
            is_document = record.content is not None or record.body is not None
            is_usual = action not in refused or (action is _ADD and is_document)
            if not is_usual or is_acl or (needs_absolute and not is_absolute(record.url)):
                refuse_kind(record, holds, target)
            lose(draft)
            if fit is not None:
                fit(draft)
            if action is _UPDATE and draft.record is not record:
                refuse_kind(draft.record, holds, target)  # nothing may be left of it
            if not holds.encodings:
                _decode_content(draft, target)
        except RecordError as exc:
            return rejected(record, exc)
        return draft.finish()

    return adapt


def _expand_pattern(record: Record, target: Target, adapt: Adapter) -> tuple[Outcome, ...]:
    """Return a deletion for each known URL that the pattern covers."""
    pattern = compile_deletion(record.url)
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
