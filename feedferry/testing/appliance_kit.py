"""The kit of a kind of appliance: what it says to requests, without the code under test."""

from collections.abc import Callable, Collection, Mapping, Sequence

import msgspec

from feedferry.testing.scripted_server import ScriptedReply, ScriptedRequest
from feedferry.transforms.formats import Format
from feedferry.transforms.sinks.push.wire.protocol import ApplianceProtocol

TOO_LARGE = ScriptedReply(413, b"too large")
BUSY = ScriptedReply(503, b"busy", headers={"Retry-After": "0"})


class ApplianceKit(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What tests need to know about a kind of appliance."""

    appliance: ApplianceProtocol

    format: Format
    """A format of documents that it takes."""

    path: str = ""
    """The end of its URL, after `http://127.0.0.1:PORT`."""

    profile: str | None = None

    settings: Mapping[str, object] = {}
    """Settings of the conversion to the format, as of `feedferry.convert`."""

    urls_of: Callable[[bytes], Sequence[str]]
    """The URLs of the records in the body of a request, in order; none in any other request."""

    accept: Callable[[Sequence[str]], ScriptedReply]
    """The reply that accepts records with these URLs."""

    refuse: Callable[[Sequence[str], Collection[str]], ScriptedReply] | None = None
    """The reply that accepts records with the first URLs, except those with the second.

    Without it, an appliance refuses a request as a whole.
    """

    ill_formed: ScriptedReply = ScriptedReply(400, b"malformed feed")
    """The reply that refuses a request as a whole."""

    busy: tuple[ScriptedReply, ...] = (BUSY,)
    """Replies after which the same request is sent again."""

    too_large: ScriptedReply = TOO_LARGE

    others: Callable[[ScriptedRequest], ScriptedReply] = lambda _request: ScriptedReply(body=b"0")
    """The replies to requests without records: of the backlog, and of the steps of a run."""

    def __repr__(self) -> str:
        return f"the kit of {self.name}"

    @property
    def name(self) -> str:
        return self.appliance.name
