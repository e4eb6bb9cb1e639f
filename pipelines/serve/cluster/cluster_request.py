"""A request to a cluster, and its reply in JSON."""

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from tempfile import SpooledTemporaryFile
from typing import IO

import msgspec

from feedferry.pipelines.serve.cluster.bulk_actions import ItemFaults
from feedferry.pipelines.serve.cluster.cluster_error import (
    Body,
    ClusterError,
    not_played,
    parse_body,
)
from feedferry.pipelines.serve.cluster.filter_path import (
    Paths,
    keep,
    keep_fields,
    parse_paths,
    paths_below,
)

_MAX_OBJECT_BYTES = 16 << 20
_MEMORY_BYTES = 1 << 20


class ClusterRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request; `below` follows the verb in its path, as the name of an alias."""

    name: str
    below: str
    query: dict[str, list[str]]
    stream: IO[bytes]
    faults: ItemFaults

    @property
    def names(self) -> str:
        """The indexes of a request that may be about all."""
        return self.name or "_all"

    @property
    def paths(self) -> Paths:
        return parse_paths(",".join(self.query.get("filter_path", [])))

    def read_object(self) -> dict[str, object]:
        """Return the body, {} if there is none; raise ClusterError unless it is an object."""
        data = self.stream.read(_MAX_OBJECT_BYTES + 1)
        if len(data) > _MAX_OBJECT_BYTES:
            raise not_played(f"a body of more than {_MAX_OBJECT_BYTES} bytes", "a smaller one")
        try:
            return msgspec.json.decode(data, type=dict[str, object]) if data.strip() else {}
        except msgspec.MsgspecError as exc:
            raise ClusterError(400, "json_parse_exception", str(exc)) from exc

    def read(self, kind: type[Body]) -> Body:
        """Return the body, with the default of each key; raise ClusterError for other keys."""
        return parse_body(self.read_object(), kind)


class ClusterReply(msgspec.Struct, frozen=True, kw_only=True):
    """A reply in JSON; a stream is sent from its start, and closed."""

    status: int = 200
    body: bytes | IO[bytes] = b""


Handler = Callable[[ClusterRequest], object]
"""Returns a reply, or an object for its body."""

Handlers = dict[tuple[str, str], Handler]
"""The handlers by method and verb; the verb of a path without one is empty."""


def stream_reply(
    frame: Callable[[], dict[str, object]],
    names: tuple[str, ...],
    items: Iterable[object],
    paths: Paths,
) -> ClusterReply:
    """Return an object with a list of items, which are not kept in memory.

    `names` are those of the list and of the object that has it. `frame` returns the other fields
    when all items are known.
    """
    of_items = paths_below(paths, names)
    with ExitStack() as opened:
        body = opened.enter_context(SpooledTemporaryFile(_MEMORY_BYTES))
        body.write(b"".join(b'{"%s":' % name.encode() for name in names) + b"[")
        is_empty = True
        for item in items:
            part = {} if of_items is None else keep(item, of_items)
            if part:
                body.write((b"" if is_empty else b",") + msgspec.json.encode(part))
                is_empty = False
        kept = keep_fields(frame(), paths)
        if is_empty and paths:
            return ClusterReply(body=msgspec.json.encode(kept))
        body.write(b"]")
        inner = [kept.pop(name, {}) for name in names[:-1]]
        for fields in (*inner, kept):
            body.write((b"," if fields else b"") + msgspec.json.encode(fields)[1:])
        opened.pop_all()
    return ClusterReply(body=body)
