"""The rejects of a run whose documents have a newer version in the same run.

A replay of such a reject would send an older version after a newer one, and the older one may be
open to more users.
"""

from pathlib import Path

from feedferry.pipelines.access.sent_actions import SentAction, newest_actions, read_withheld
from feedferry.schemas.record import Action
from feedferry.schemas.reject import Reject


class NewerVersions:
    """Knows the newest actions of a run on the documents that its rejects have withheld."""

    def __init__(self, run: Path) -> None:
        rows = [row for _, row in read_withheld(run)]
        self._documents = {
            (row["code"], row["where"]): (row["datasource"], row["url"]) for row in rows
        }
        self._newest = newest_actions(run, {row["url"] for row in rows})

    def has(self, reject: Reject) -> bool:
        """Whether the run has written a newer version of the document of a reject."""
        document = self._documents.get((reject.code, reject.where))
        newest = None if document is None else self._newest.get(document)
        if newest is None or _hides(newest):
            return False
        own = reject.source, reject.offset  # of a version that the target has refused
        return reject.stage != "push" or own != _place_of(newest)


def _place_of(action: SentAction) -> tuple[str, int]:
    return f"{action.chunk.parent.name}/{action.chunk.name}", action.record.provenance.offset


def _hides(action: SentAction) -> bool:
    """Whether an action only hides a document, as that of a reject does."""
    acl = action.record.acl
    return action.record.action is Action.UPDATE and acl is not None and acl.permits_nobody
