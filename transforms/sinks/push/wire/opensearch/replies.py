"""Replies of a cluster to counts and searches; a reply without all shards is refused."""

from typing import TypeVar

import msgspec

from feedferry.schemas.errors import TargetError
from feedferry.transforms.sinks.push.model import ApplianceResponse
from feedferry.transforms.sinks.push.wire.opensearch.results import failure


class HeldAliases(msgspec.Struct):
    """The aliases of an index."""

    aliases: dict[str, object] = {}


SortValue = int | float | str | None


class _Shards(msgspec.Struct):
    failed: int = 0


class _Reply(msgspec.Struct, kw_only=True):
    shards: _Shards = msgspec.field(default_factory=_Shards, name="_shards")
    timed_out: bool = False


Reply = TypeVar("Reply", bound=_Reply)


class CountReply(_Reply, kw_only=True):
    count: int


class Hit(msgspec.Struct, kw_only=True):
    """A document of a list; `sort` is where the next page begins."""

    id: str = msgspec.field(name="_id")
    source: dict[str, object] = msgspec.field(name="_source")
    sort: list[SortValue] = []


class _Total(msgspec.Struct):
    value: int = 0


class _Hits(msgspec.Struct):
    hits: list[Hit] = []
    total: _Total = msgspec.field(default_factory=_Total)


class SearchReply(_Reply, kw_only=True):
    """`filter_path` leaves out lists and objects that are empty."""

    hits: _Hits = msgspec.field(default_factory=_Hits)


class DecisionHit(msgspec.Struct, kw_only=True):
    """A document, by its id, with the fields of its decision; those without tokens are absent."""

    id: str = msgspec.field(name="_id")
    fields: dict[str, list[str] | str] = {}


class _DecisionHits(msgspec.Struct):
    hits: list[DecisionHit] = []


class DecisionReply(_Reply, kw_only=True):
    """The decisions of documents."""

    hits: _DecisionHits = msgspec.field(default_factory=_DecisionHits)


def read_reply(response: ApplianceResponse, kind: type[Reply], expected: str) -> Reply:
    """Return a reply that all shards have answered; raise TargetError for any other."""
    if not response.is_success:
        raise failure(response, expected)
    try:
        reply = msgspec.json.decode(response.body, type=kind)
    except msgspec.DecodeError as exc:
        raise TargetError(f"{response.url}: {exc}; expected {expected}") from exc
    if reply.timed_out or reply.shards.failed:
        raise TargetError(f"{response.url}: not all shards have answered; expected all: try again")
    return reply
