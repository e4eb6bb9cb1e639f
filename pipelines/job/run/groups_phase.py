"""The groups of a job at a target that applications ask for the groups of their users."""

import logging
from collections.abc import Callable
from pathlib import Path

from feedferry.schemas.errors import ConfigError
from feedferry.transforms.sinks.push.settings import PushSettings
from feedferry.transforms.steps.stated.group_store import known_groups


def check_groups(push: PushSettings | None, acls: str | None) -> None:
    """Raise ConfigError if a target takes groups of a conversion that keeps none."""
    if _takes_groups(push) and acls is None:
        raise ConfigError(
            "target.groups_index: groups are kept by a job, or next to a state; expected a job, or"
            " ⟦state⟧"
        )


def publish_groups(
    push: PushSettings | None, acls: Path, notice: Callable[[str, int], None], *, job: str
) -> None:
    """Write the groups that a job keeps to its target; this may be repeated.

    `notice` gets messages and their levels of `logging`. If a group is not known, the target has
    none: without one of its groups, a user would find documents that the group is denied.
    """
    write = None if push is None else push.appliance.protocol.write_groups
    if push is None or write is None or not _takes_groups(push):
        return
    from feedferry.transforms.sinks.push.wire.client import ApplianceClient  # loads the HTTP client
    from feedferry.transforms.sinks.push.wire.reader import TargetReader

    appliance, kept = push.appliance, known_groups(acls)
    memberships = kept.memberships if kept.unknown is None else None
    level = logging.INFO if kept.unknown is None else logging.WARNING
    if kept.unknown is not None:
        notice(f"feedferry: {acls}: {kept.unknown}", level)
    with ApplianceClient(appliance) as client:
        for text in write(TargetReader(appliance, client), memberships, job):
            notice(f"feedferry: {text}", level)


def _takes_groups(push: PushSettings | None) -> bool:
    takes = None if push is None else push.appliance.protocol.takes_groups
    return push is not None and takes is not None and takes(push.appliance)
