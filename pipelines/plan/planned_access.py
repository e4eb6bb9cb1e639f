"""Who would see more documents after a run, and who fewer: its chunks, compared with the target."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from feedferry.schemas.account import Account, Chunk
from feedferry.schemas.errors import TargetError
from feedferry.schemas.span import Span
from feedferry.transforms.access.meet import AclChange
from feedferry.transforms.conversion.conversion_settings import Settings
from feedferry.transforms.conversion.convert import convert
from feedferry.transforms.rules.acl_changes import ACL_CHANGES, ListedChange, first_changes
from feedferry.transforms.sinks.push.settings import PushSettings
from feedferry.transforms.storage.run_folders.attempts import DryAttempt, StoredDryAttempt

MAX_CHANGES = 10
_NO_INDEX_YET = 404


class PlannedAccess(msgspec.Struct, frozen=True, kw_only=True):
    """The documents of a plan by the change in who sees them, and the first changes.

    `not_compared` is the reason why nothing is known of that.
    """

    changes: Mapping[str, int] = {}
    first: Sequence[ListedChange] = ()
    stop: str | None = None
    not_compared: str | None = None


class AccessPlanner:
    """Converts the parts of a plan, and compares their chunks with the target of the run.

    The chunks are stored without contents while the plan is made, unless there is nothing to
    compare them with.
    """

    def __init__(self, push: PushSettings | None, *, is_sample: bool) -> None:
        self._push = push if push is not None and push.appliance.protocol.compare_access else None
        self._not_compared = "a sample of the input" if is_sample else self._find_obstacle()

    def convert(self, part: Span, settings: Settings) -> Account:
        """Return the account of a part of the input."""
        if self._push is None or self._not_compared is not None:
            return convert(part, settings, by=DryAttempt)
        account = convert(part, settings, by=StoredDryAttempt)
        for chunk in account.chunks:
            self._keep_access(settings.local / chunk.path)
        return account

    def compare(self, chunks: Sequence[Chunk], folder: Path) -> PlannedAccess | None:
        """Return the changes by chunks in a folder; None for a target that has no decisions."""
        push = self._push
        if push is None or push.appliance.protocol.compare_access is None:
            return None
        if self._not_compared is not None:
            return PlannedAccess(not_compared=self._not_compared)
        from feedferry.transforms.sinks.push.planned_run import PlannedRun
        from feedferry.transforms.sinks.push.wire.client import ApplianceClient

        try:
            with ApplianceClient(push.appliance) as client:
                run = PlannedRun(push, client, chunks=chunks, folder=folder)
                comparison = push.appliance.protocol.compare_access(run)
        except TargetError as exc:
            return PlannedAccess(not_compared=exc.text)
        return PlannedAccess(
            changes={
                change.value: comparison.changes[change]
                for change in AclChange
                if change in comparison.changes
            },
            first=first_changes(folder / ACL_CHANGES, MAX_CHANGES),
            stop=comparison.stop,
        )

    def _find_obstacle(self) -> str | None:
        """Return why the run cannot be compared, None if it can."""
        if self._push is None:
            return None
        from feedferry.transforms.sinks.push.wire.client import ApplianceClient
        from feedferry.transforms.sinks.push.wire.reader import TargetReader

        appliance = self._push.appliance
        try:
            with ApplianceClient(appliance) as client:
                reader = TargetReader(appliance, client)
                response = reader.request(appliance.protocol.probe_path)
        except TargetError as exc:
            return exc.text
        if response.status == _NO_INDEX_YET:
            return "there is no index yet"
        if not response.is_success:
            line = appliance.protocol.judge_probe(response)
            return f"{appliance.url}: {line.found}"
        return None

    def _keep_access(self, path: Path) -> None:
        """Remove everything from a chunk that does not say who sees its documents."""
        lines = None if self._push is None else self._push.appliance.protocol.access_lines
        if lines is not None:
            kept = path.with_name(f"{path.name}.kept")
            with path.open("rb") as stream, kept.open("wb") as target:
                target.writelines(lines(stream))
            kept.replace(path)
