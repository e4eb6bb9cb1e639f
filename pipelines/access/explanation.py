"""The explanation of who sees a document; its text and its JSON are made of it."""

from collections.abc import Sequence

import msgspec

from feedferry.pipelines.access.sent_actions import Withheld
from feedferry.transforms.access.verdicts import PartVerdict, TokenLayer


class AclLink(msgspec.Struct, frozen=True, kw_only=True):
    """An ACL on the way from a document to the top, and the feed that brought it.

    `permits` and `denies` are tokens. With a `fault`, the ACL is not known. If it `is_sent`, a
    chunk has it, in place of a feed.
    """

    url: str
    datasource: str | None = None
    fault: str | None = None
    permits: Sequence[str] = ()
    denies: Sequence[str] = ()
    inheritance: str | None = None
    inherits: str | None = None
    is_sent: bool = False
    run: str = ""
    source: str = ""
    line: int = 0
    offset: int = 0


class DecidedPart(PartVerdict, frozen=True, kw_only=True):
    """How a part decides about a user, and the URLs of the ACLs that state the tokens."""

    acls: Sequence[str] = ()


class DocumentDecision(msgspec.Struct, frozen=True, kw_only=True):
    """The decision of the ACLs: as it was `sent`, by the `acls` of the job, or at the `target`.

    Without layers, everyone sees the document. `is_found` is whether a search of the user finds it;
    None without a user.
    """

    origin: str
    datasource: str | None = None
    layers: Sequence[TokenLayer] = ()
    is_found: bool | None = None
    parts: Sequence[DecidedPart] = ()


class LastAction(msgspec.Struct, frozen=True, kw_only=True):
    """The newest action on a document; `document_run` has sent all of it, if that is known."""

    run: str
    action: str
    chunk: str
    offset: int
    source: str
    document_run: str | None = None


class AccessExplanation(msgspec.Struct, frozen=True, kw_only=True):
    """The ACLs of a document and their decisions, as of a run."""

    url: str
    datasource: str | None = None
    run: str | None = None
    sent: LastAction | None = None
    withheld: Withheld | None = None
    acls: Sequence[AclLink] = ()
    decisions: Sequence[DocumentDecision] = ()
    user: str | None = None
    notes: Sequence[str] = ()

    @property
    def is_empty(self) -> bool:
        """Whether nothing is known of the document."""
        return self.sent is None and not self.acls and not self.decisions
