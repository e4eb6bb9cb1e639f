"""Documents as the list of an index has them, for a comparison with the input."""

from hashlib import sha256

from msgspec.structs import replace

from feedferry.schemas.acl import Acl, AclLayer
from feedferry.schemas.errors import RecordError
from feedferry.schemas.record import Arrival, Content, Crawl, Record
from feedferry.transforms.access.decision import PARTS, decision_of
from feedferry.transforms.access.index_fields import acl_of_fields, fields_of
from feedferry.transforms.sinks.push.wire.protocol import ListedDocument

LISTED_FIELDS = frozenset(
    {
        *("acl", "categories", "content", "datasource", "description", "display_url", "field"),
        *("keywords", "metadata", "mimetype", "modified", "title"),
    }
)
_PARTS = range(1, PARTS + 1)


def as_listed(record: Record) -> Record:
    """Return a record of the format as a list has it: its text as content, its ACL by tokens."""
    content = record.content
    if content is None and record.body is not None:
        content = Content(record.body.encode("utf-8", "surrogatepass"))
    crawl, acl = record.crawl, record.acl
    if acl is not None and acl.inherits and not acl.decision:
        raise RecordError(
            "acl-inherits",
            f"an ACL that inherits from {acl.inherit_from!r}; expected the decision of its chain:"
            " the step `acl: decision` resolves it",
        )
    if acl is None and crawl is not None and crawl.secure:
        acl = Acl()
    shown = None if crawl is None else Crawl(display_url=crawl.display_url)
    return replace(
        record,
        arrival=Arrival.PUSHED,
        content=content,
        body=None,
        charset=None,
        size=None,
        acl=None if acl is None else _by_tokens(acl),
        crawl=None if shown == Crawl() else shown,
    )


def listed(document: Record) -> ListedDocument:
    """Return a document as a list has it."""
    record = as_listed(document)
    data = None if record.content is None else record.content.data
    return ListedDocument(
        record=replace(record, content=None),
        size=None if data is None else len(data),
        sha256=None if data is None else sha256(data).digest(),
    )


def _by_tokens(acl: Acl) -> Acl:
    """Return an ACL as its fields state it, with principals in one order.

    One that permits nobody has none.
    """
    fields = fields_of(decision_of(acl))
    if fields is None:
        return acl
    stated = acl_of_fields({name: sorted(tokens) for name, tokens in fields.items()}) or Acl()
    if not all(any(f"acl_{part}_permit" in name for name in fields) for part in _PARTS):
        return Acl(withholds=acl.withholds)
    if stated.decision:
        return Acl(
            decision=tuple(
                AclLayer(part=of.part, principals=of.principals) for of in stated.decision
            )
        )
    return stated
