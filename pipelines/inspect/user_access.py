"""The users and groups that a search is made for."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from feedferry.pipelines.convert.inputs.input_files import read_spans
from feedferry.pipelines.folders.gateway_folders import acls_in, find_spool
from feedferry.pipelines.inspect.inspection import parse, read_results
from feedferry.pipelines.options.convert_options import ACLS_SUFFIX
from feedferry.schemas.account import SpanFile
from feedferry.schemas.acl import Scope
from feedferry.schemas.delivery import Delivery
from feedferry.schemas.errors import ConfigError
from feedferry.schemas.feed import FULL, FeedHeader
from feedferry.schemas.membership import Member, Membership
from feedferry.schemas.record import Provenance
from feedferry.schemas.reject import Reject
from feedferry.schemas.span import Span
from feedferry.transforms.access.user_groups import with_groups
from feedferry.transforms.formats import ReadOptions, by_name
from feedferry.transforms.sources.spool import read_deliveries, spans_of
from feedferry.transforms.steps.stated.group_log import GROUPS, GroupLog, read_groups
from feedferry.transforms.steps.stated.group_store import count_groups, kept_groups, known_groups
from feedferry.transforms.steps.stated.stated_store import remember_stated
from feedferry.transforms.storage.atomic import AtomicFile
from feedferry.transforms.storage.storage import LocalStorage


def find_members(
    names: Sequence[str],
    *,
    groups: Sequence[str] = (),
    namespace: str | None = None,
    groups_feeds: Sequence[str] = (),
) -> tuple[Member, ...]:
    """Return a user by all names of the user, and the groups of the user.

    With `groups_feeds`, the groups that have the user or one of the groups as a member are added,
    at any depth; one of them may be the file `state.acls` of a job, or a spool. Raise ConfigError
    if a part of these feeds cannot be read: without one of its groups, a user would find documents
    that the group is denied.
    """
    stated = [Member(name=name, scope=Scope.USER, namespace=namespace) for name in names]
    stated += (Member(name=name, scope=Scope.GROUP, namespace=namespace) for name in groups)
    for member in stated:
        if not member.name.strip():
            raise ConfigError("an empty name of a user or group; expected a name")
    return with_groups(stated, _memberships(groups_feeds) if groups_feeds else ())


def _memberships(feeds: Sequence[str]) -> Iterator[Membership]:
    for feed in feeds:
        if (path := Path(feed)).suffix == ACLS_SUFFIX:
            yield from kept_groups(path)
            continue
        if (spool := find_spool(feed)) is not None:
            yield from _groups_of_spool(spool)
            continue
        has_groups = False
        for result in read_results(parse({"inputs": (feed,)})):
            if isinstance(result, Membership):
                has_groups = True
                yield result
            elif isinstance(result, FeedHeader):
                has_groups |= result.memberships
            elif isinstance(result, Reject):
                raise ConfigError(f"{result.code}: {result.message}: expected whole groups")
        if not has_groups:
            raise ConfigError(f"{feed}: no groups; expected a groups feed, or a table of groups")


def _groups_of_spool(spool: Path) -> Iterator[Membership]:
    """Yield the groups that a gateway keeps, or else those of the groups feeds of its spool.

    As for a gateway, a feed replaces the groups that it names. Other feeds are not read.
    """
    if count_groups(acls_in(spool)):
        yield from kept_groups(acls_in(spool))
        return
    with TemporaryDirectory(prefix="feedferry-groups-") as name:
        folder = Path(name)
        path = folder / "groups"
        for delivery in read_deliveries(spool):
            if files := _list_groups(spool, delivery, folder):
                remember_stated((), read_groups(folder, files), path, b"")
        groups = known_groups(path)
    if groups.unknown is not None:
        raise ConfigError(f"{spool}: {groups.unknown}")
    if not groups.memberships:
        raise ConfigError(f"{spool}: no groups; expected a spool with groups feeds")
    yield from groups.memberships


def _list_groups(spool: Path, delivery: Delivery, folder: Path) -> list[SpanFile]:
    """Write a list of the groups of a delivery; return it, or nothing for another feed."""
    if not by_name(delivery.format).holds_only_memberships:
        return []
    file = AtomicFile(LocalStorage(folder), f"{delivery.ordinal}{GROUPS}")
    log = GroupLog(file, feedtype=None, has_only_groups=True)
    if delivery.path is None:  # a cleanup
        log.enter(Provenance(datasource=delivery.datasource, feedtype=FULL))
    else:
        span = Span(source=str(spool), path=str(spool))
        spans = spans_of([delivery], span, rejects_missing=True)
        for result in read_spans(spans, ReadOptions()):
            if isinstance(result, Membership):
                log.add(result, [result])
            elif isinstance(result, FeedHeader):
                log.enter(result)
            elif isinstance(result, Reject):
                log.reject(result)
    log.close(whole=True)
    return log.written
