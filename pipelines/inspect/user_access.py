"""The users and groups that a search is made for."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from feedferry.pipelines.inspect.inspection import parse, read_results
from feedferry.pipelines.options.convert_options import ACLS_SUFFIX
from feedferry.schemas.acl import Scope
from feedferry.schemas.errors import ConfigError
from feedferry.schemas.feed import FeedHeader
from feedferry.schemas.membership import Member, Membership
from feedferry.schemas.reject import Reject
from feedferry.transforms.access.user_groups import with_groups
from feedferry.transforms.steps.stated.group_store import kept_groups


def find_members(
    names: Sequence[str],
    *,
    groups: Sequence[str] = (),
    namespace: str | None = None,
    groups_feeds: Sequence[str] = (),
) -> tuple[Member, ...]:
    """Return a user by all names of the user, and the groups of the user.

    With `groups_feeds`, the groups that have the user or one of the groups as a member are added,
    at any depth; one of them may be the file `state.acls` of a job. Raise ConfigError if a part of
    these feeds cannot be read: without one of its groups, a user would find documents that the
    group is denied.
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
