"""Rules that adapt a record to a target, as far as more than one target has them.

A rule changes a `Draft` and reports each value that the target cannot hold as a loss.
"""

from collections.abc import Callable, Iterable
from datetime import datetime
from enum import Enum
from operator import attrgetter
from typing import NamedTuple

from msgspec.structs import asdict, replace

from schemas.errors import RecordError
from schemas.loss import Loss
from schemas.record import Action, Authmethod, Content, Crawl, Extra, Meta, Record
from schemas.reject import Filtered, reject_record
from transforms.formats.gsa.legacy_acl import is_acl_name
from transforms.formats.target import Adapted, Target
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
_UPDATE_INDEX, _DELETE_PATTERN = Action.UPDATE_INDEX, Action.DELETE_PATTERN


class Draft:
    """A record that is being adapted, and its losses."""

    __slots__ = ("losses", "record")

    def __init__(self, record: Record) -> None:
        self.record = record
        self.losses: list[Loss] = []

    def change(self, **fields: object) -> None:
        self.record = replace(self.record, **fields)

    def lose(self, field: str, detail: str) -> None:
        self.losses.append(Loss(field=field, url=self.record.url, detail=detail))

    def finish(self) -> Adapted:
        """Return record and losses. A deletion has no losses: its document is deleted anyway."""
        losses = () if is_deletion(self.record) else tuple(self.losses)
        return (self.record,), losses


Rule = Callable[[Draft, Target], None]


class RuleOf(NamedTuple):
    """A rule, and the records that it is for.

    With `fields`, it is for records that state one of them; with `is_needed`, for those of which
    that is true when it is the rule's turn; with neither, for all.
    """

    rule: Rule
    fields: tuple[str, ...] = ()
    is_needed: Callable[[Record], bool] | None = None


class RuleTable:
    """Rules in their order. Most records need none, and that is found out quickly."""

    def __init__(self, rules: Iterable[RuleOf]) -> None:
        self._rules = tuple(rules)
        self._fields = sorted({field for rule in self._rules for field in rule.fields})
        self._values = attrgetter(*self._fields)
        nothing = Record(url="", action=Action.ADD)
        self._nothing = self._values(nothing)
        self._for_any = self._choose([False] * len(self._fields))
        self._chosen: dict[tuple[bool, ...], tuple[RuleOf, ...]] = {}

    def apply(self, record: Record, target: Target) -> Adapted:
        values = self._values(record)
        rules = self._for_any if values == self._nothing else self._rules_for(values)
        draft = None
        for rule, _, is_needed in rules:
            if is_needed is None or is_needed(draft.record if draft else record):
                draft = draft or Draft(record)
                rule(draft, target)
        return draft.finish() if draft else ((record,), ())

    def _rules_for(self, values: tuple[object, ...]) -> tuple[RuleOf, ...]:
        stated = tuple([value is not None and value != () for value in values])
        rules = self._chosen.get(stated)
        if rules is None:
            rules = self._chosen[stated] = self._choose(stated)
        return rules

    def _choose(self, stated: Iterable[bool]) -> tuple[RuleOf, ...]:
        names = {name for name, is_stated in zip(self._fields, stated, strict=True) if is_stated}
        return tuple(rule for rule in self._rules if not rule.fields or names & set(rule.fields))


def is_deletion(record: Record) -> bool:
    return record.action is Action.DELETE or record.action is Action.DELETE_PATTERN


def is_alone(record: Record) -> bool:
    """Whether the record is an ACL without a document."""
    return record.acl is not None and record.acl.alone


def rejected(record: Record, reason: RecordError) -> Adapted:
    """The adapted form of a record that a target cannot take."""
    reject = reject_record(record, code=reason.code, reason=reason.reason, stage="adapt")
    return (reject,), ()


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
            _lose_unknown_authmethod(draft, extra)
    if others:
        draft.lose("extras", ", ".join(others))


def _lose_unknown_authmethod(draft: Draft, extra: Extra) -> None:
    is_lost = any(loss.field == "acl" for loss in draft.losses)
    if draft.record.acl is None and not is_lost:
        draft.lose("acl", f"none, but an unknown authmethod {extra.value!r}")


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
    """Raise RecordError unless the URL of a document is absolute, as every appliance needs it.

    A deletion by pattern and an update of the indexes have no URL of a document.
    """
    action = record.action
    is_of_document = action is not _UPDATE_INDEX and action is not _DELETE_PATTERN
    if is_of_document and not is_absolute(record.url):
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
    filtered = Filtered(code="acl-alone", url=record.url, action=record.action.value)
    return (filtered,), () if is_deletion(record) else tuple(draft.losses)


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


def body_as_content(draft: Draft, _target: Target) -> None:
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


def texts_as_metadata(draft: Draft, _target: Target) -> None:
    """Put title, description, keywords and categories before the metadata."""
    record = draft.record
    names = ("title", "description", "keywords")
    stated = [(name, getattr(record, name)) for name in names]
    metas = [Meta(name, text) for name, text in stated if text is not None]
    metas += [Meta("category", category) for category in record.categories]
    if metas:
        metadata = (*metas, *record.metadata)
        draft.change(title=None, description=None, keywords=None, categories=(), metadata=metadata)


def fields_as_metadata(draft: Draft, _target: Target) -> None:
    record = draft.record
    if not record.fields:
        return
    for field in record.fields:
        if field.namespace is not None:
            draft.lose("fields", f"namespace {field.namespace!r} of {field.name!r}")
    metas = (Meta(field.name, value) for field in record.fields for value in field.values)
    draft.change(fields=(), metadata=(*record.metadata, *metas))


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
