"""The documents that a run shows to more users, or to fewer."""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from feedferry.pipelines.folders.gateway_folders import find_spool
from feedferry.pipelines.folders.job_folders import find_run
from feedferry.schemas.errors import ConfigError
from feedferry.schemas.printable import printable
from feedferry.transforms.access.verdicts import token_text
from feedferry.transforms.rules.acl_changes import ACL_CHANGES, ListedChange, read_changes

_CHARS = 8
"""The width of the column of changes."""


def changes_of(run: str) -> Iterator[ListedChange]:
    """Yield the changes that the pushes of a run have found, those of each target together.

    `run` is the folder of a run, or a job, of which it is the newest run. Raise ConfigError if no
    push has compared the run with a target.
    """
    if find_spool(run) is not None:
        raise ConfigError(
            f"{run}: a gateway keeps no {ACL_CHANGES}; expected a job, or a run of it"
        )
    folder = find_run(run)
    paths = sorted(folder.glob(f"push/*/{ACL_CHANGES}"))
    if not paths:
        raise ConfigError(
            f"{run}: no {ACL_CHANGES}; expected a run that was pushed to OpenSearch or"
            " Elasticsearch when the index had documents"
        )
    return _changes(paths)


def _changes(paths: list[Path]) -> Iterator[ListedChange]:
    for path in paths:
        yield from read_changes(path)


def change_rows(run: str) -> Iterator[str]:
    """Yield a line for each change: its kind, the document, who gains it, who loses it."""
    for change in changes_of(run):
        yield printable(f"{change.change:<{_CHARS}}  {change_text(change)}")


def change_text(change: ListedChange) -> str:
    """Return the document of a change, who gains it and who loses it."""
    who = [f"+{token_text(token)}" for token in change.gained]
    who += [f"-{token_text(token)}" for token in change.lost]
    return f"{change.url}  {', '.join(who)}".rstrip()


def change_lines(run: str) -> Iterator[str]:
    """Yield a line of JSON for each change."""
    for change in changes_of(run):
        yield msgspec.json.encode(change).decode()
