"""The interface of a step, its inputs before a run, and the application of several in order."""

from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar, Protocol, TypeVar

from msgspec.structs import replace

from feedferry.schemas.acl import Scope
from feedferry.schemas.errors import RecordError
from feedferry.schemas.feed import FeedHeader
from feedferry.schemas.membership import Member, Membership, MembershipAction
from feedferry.schemas.record import Action, Provenance, Record
from feedferry.schemas.reject import Filtered, Reject, record_error, reject_record
from feedferry.transforms.formats.base import ReadResult
from feedferry.transforms.formats.fast_path.columns.holes import InspectedError
from feedferry.transforms.formats.fast_path.elements.singly import singly
from feedferry.transforms.formats.holding.acl_metadata import acl_of

STAGE = "transform"
"""The stage of rejects that a step makes."""

_WITHOUT_URL = (Action.DELETE_PATTERN.value, MembershipAction.MEMBERSHIP.value)

MAX_AHEAD = 64
"""The most results that are kept in order while their records wait for servers."""

StepResult = Record | Membership | Filtered | Reject
"""The result of a step: a record, changed or not, or a record that is set aside."""

Unmapped = Counter[tuple[Scope, str]]
"""The places of principals that a step does not map, by scope and name."""

_Result = TypeVar("_Result")
_Item = TypeVar("_Item", bound=Record | Membership)
_ITEMS = (Record, Membership)
_SET_ASIDE = (Filtered, Reject)


class StepInputs(Protocol):
    """The inputs of a run, to be read before the records are converted."""

    def records(self) -> Iterable[ReadResult]:
        """Return the results of all inputs, in order."""
        ...

    def may_inherit(self) -> bool:
        """Whether an ACL of the inputs may inherit from another one."""
        ...

    def may_be_acl(self, reject: Reject) -> bool:
        """Whether a reject of a reader may be an ACL that arrived alone."""
        ...

    def feed_of(self, feed: Provenance | FeedHeader) -> tuple[str | None, str | None]:
        """Return the datasource and the feedtype that a feed has at the target."""
        ...

    @property
    def can_be_read(self) -> bool:
        """Whether all inputs are files of records, which can be read before the run."""
        ...

    @property
    def is_full(self) -> bool:
        """Whether all feeds of the run are full ones."""
        ...

    @property
    def kept_acls(self) -> Path | None:
        """The file with the ACLs that a job keeps of its earlier runs, None without a job."""
        ...

    @property
    def run(self) -> str:
        """The name of the run."""
        ...

    @property
    def settles_doubts(self) -> bool:
        """Whether doubtful ACLs become unknown, where the run would stop."""
        ...

    @property
    def withholds(self) -> bool:
        """Whether the run hides documents that are rejected."""
        ...

    @property
    def sends_decisions(self) -> bool:
        """Whether the run sends the decisions of earlier runs that have changed."""
        ...

    def file(self, path: Path) -> Iterable[ReadResult]:
        """Return the results of another file; raise ConfigError if it cannot be read."""
        ...

    def is_accepted(self, reject: Reject) -> bool:
        """Whether the operator accepts that a part of the inputs is not converted."""
        ...

    def updated(self, base: Path, steps: "AppliedSteps", folder: Path) -> Iterable[Record]:
        """Return the documents that the inputs update in part, after these steps.

        `base` has the documents before; `folder` is for temporary files.
        """
        ...


class TransformStep(ABC):
    """One step; a worker makes it once, and applies it to all records of its spans.

    `used` are the patterns that have matched, `unmapped` the counts of principals that it does not
    map. Where it `is_of_model`, it looks only at values that alike records have in common. If not,
    alike records go one by one: all of them would get the result of one. Where it also
    `is_of_elements`, it changes an element of a record by nothing but this element. A step that
    `is_waiting` for servers begins with records before they are applied.
    """

    is_of_model = False
    is_of_elements = False
    is_waiting: ClassVar[bool] = False
    used: Set[str] = frozenset()
    unmapped: Unmapped | None = None

    @abstractmethod
    def apply(self, record: Record) -> Record | Filtered | Sequence[Record] | None:
        """Return the record, changed or as it is; several; or None to filter it.

        A Filtered filters it by a code of its own.

        Raise RecordError for a record that is to be rejected.
        """

    def apply_to_group(self, membership: Membership) -> Membership | None:
        """Return the membership, changed or as it is, or None to filter it."""
        return membership

    @property
    def is_full(self) -> bool:
        """Whether no further record should be begun before the first is applied."""
        return True

    def begin(self, record: Record) -> bool:
        """Begin with a record that `apply` gets later; return whether it waits for a server."""
        return False

    def close(self) -> None:  # noqa: B027 - few steps have something to close
        """Give up the records that were begun and not applied."""


NamedStep = tuple[str, TransformStep]
"""A step with its name in reports."""


class AppliedSteps:
    """Steps with their names, in order; `changed` counts the records that each has changed.

    The first step that waits for servers begins with records before they are applied.
    """

    def __init__(self, steps: Sequence[NamedStep]) -> None:
        self._steps = steps
        waiting = [at for at, (_, step) in enumerate(steps) if step.is_waiting]
        self._waiting_at = waiting[0] if waiting else 0
        self._waiting = steps[waiting[0]][1] if waiting else None
        self.unmapped = {name: step.unmapped for name, step in steps if step.unmapped is not None}
        self._begun: dict[int, list[StepResult]] = {}
        self.changed = Counter[str]()
        self.has_any = bool(steps)
        self.is_of_model = all(step.is_of_model for _, step in steps)
        self.is_of_elements = all(step.is_of_elements for _, step in steps)

    def apply(self, item: Record | Membership) -> list[StepResult]:
        """Return the results of a record or membership after all steps; count them."""
        begun = self._begun.pop(id(item), None) if self._begun else None
        if begun is None:
            return self._apply(self._steps, with_acl(item))
        later = self._steps[self._waiting_at :]
        return [made for result in begun for made in self._apply(later, result)]

    def results(self, results: Iterable[ReadResult]) -> Iterator[ReadResult]:
        """Yield the results of records and memberships after all steps, and others as they are."""
        items: Iterator[ReadResult] = singly(results)
        for item in items:
            if isinstance(item, Record | Membership):
                yield from self.apply(item)
            else:
                yield item

    def ahead(self, results: Iterable[_Result]) -> Iterator[_Result]:
        """Yield results in order; records among them are begun before they are yielded.

        A record that is yielded is to be applied before the next is taken.
        """
        if self._waiting is None:
            yield from results
            return
        queue = deque[tuple[_Result, bool]]()
        for result in results:
            is_begun = isinstance(result, Record) and self._begin(result, self._waiting)
            queue.append((result, is_begun))
            while queue and (not queue[0][1] or len(queue) > MAX_AHEAD or self._waiting.is_full):
                yield queue.popleft()[0]
        for result, _ in queue:
            yield result

    def close(self) -> None:
        """Give up the records that were begun, and close connections."""
        for _, step in self._steps:
            step.close()

    @property
    def used_patterns(self) -> Iterator[tuple[str, str]]:
        """The patterns that have matched, each with the name of its step."""
        for name, step in self._steps:
            yield from ((name, pattern) for pattern in sorted(step.used))

    @property
    def unmapped_names(self) -> int:
        """The number of unmapped principals that are counted."""
        return sum(map(len, self.unmapped.values()))

    def take_unmapped(self) -> Iterator[tuple[str, Scope, str, int]]:
        """Yield the step, scope, name and count of unmapped principals; count from 0 again."""
        for step, counts in self.unmapped.items():
            for (scope, name), count in counts.items():
                yield step, scope, name, count
            counts.clear()

    def _begin(self, record: Record, waiting: TransformStep) -> bool:
        """Apply the steps before the one that waits, and let that begin; return whether it does."""
        self._begun[id(record)] = results = self._apply(
            self._steps[: self._waiting_at], with_acl(record)
        )
        begun = [waiting.begin(result) for result in results if isinstance(result, Record)]
        return any(begun)

    def _apply(self, steps: Sequence[NamedStep], item: StepResult) -> list[StepResult]:
        """Return the results of an item after steps; one that is set aside stays as it is."""
        if isinstance(item, _SET_ASIDE):
            return [item]
        for number, (name, step) in enumerate(steps, start=1):
            made: StepResult | Sequence[Record] | None
            try:
                made = step.apply(item) if isinstance(item, Record) else step.apply_to_group(item)
            except InspectedError:  # of a model of many records, which then go one by one
                raise
            except Exception as exc:
                return [reject_record(item, record_error(exc), stage=STAGE)]
            if made is item:
                continue
            if made is None:
                return [Filtered(code=name, url=item.url, action=item.action.value)]
            if isinstance(made, _SET_ASIDE):
                return [made]
            self.changed[name] += 1
            if not isinstance(made, _ITEMS):
                return [more for each in made for more in self._apply(steps[number:], each)]
            item = made
        return [item]

    def explain(self, item: Record | Membership) -> Iterator[tuple[str, list[StepResult]]]:
        """Yield the name of each step with the results after it; count nothing."""
        results: list[StepResult] = [with_acl(item)]
        with self._counted_apart():
            for step in self._steps:
                results = [made for result in results for made in self._apply([step], result)]
                yield step[0], results

    def apply_to_model(self, record: Record) -> tuple[Record, Counter[str]] | None:
        """Return a record after all steps, and how it would be counted; None if it is not one."""
        with self._counted_apart() as changed:
            results = self.apply(record)
        match results:
            case [Record() as made]:
                return made, changed
        return None

    def renamed(self, name: str, *, is_group: bool = False) -> set[str]:
        """Return the URLs, or names of a group, that an item may have; a step may not change it."""
        names = {name}
        with self._counted_apart():
            for label, step in self._steps:
                stubs: list[Record | Membership] = [
                    Membership(group=Member(name=known, scope=Scope.GROUP))
                    if is_group
                    else Record(url=known, action=Action.ADD)
                    for known in names
                ]
                results = [made for stub in stubs for made in self._apply([(label, step)], stub)]
                names.update(made.url for made in results if isinstance(made, Record | Membership))
        return names

    def urls_of(self, reject: Reject) -> list[str]:
        """Return the URLs that the document of a reject may have at a target."""
        if not reject.url or reject.action in _WITHOUT_URL:
            return []
        urls = self.renamed(reject.url) if self.has_any else {reject.url}
        return sorted({url.strip() for url in urls})

    @contextmanager
    def _counted_apart(self) -> Iterator[Counter[str]]:
        """Count the changes of the block in a counter of its own."""
        counted, self.changed = self.changed, Counter()
        try:
            yield self.changed
        finally:
            self.changed = counted


def changed_group(
    membership: Membership, change: Callable[[Member], Member | None]
) -> Membership | None:
    """Return a membership with its group and its members changed, None without its group.

    Raise RecordError for a member that is None: an ACL may deny the group.
    """
    group = change(membership.group)
    if group is None:
        return None
    members = []
    for member in membership.members:
        if (changed := change(member)) is None:
            raise RecordError(
                "principal-unmapped",
                f"the member {member.name!r} of the group {group.name!r}, which is not mapped;"
                " expected it in the table: without it, a document that is denied to the group"
                " would be open to that member",
            )
        members.append(changed)
    if (group, tuple(members)) == (membership.group, membership.members):
        return membership
    return replace(membership, group=group, members=tuple(members))


def with_acl(item: _Item) -> _Item:
    """Return a record with the ACL that its metadata state: no step drops it as metadata."""
    if isinstance(item, Membership) or item.acl is not None or not item.metadata:
        return item
    acl, metadata = acl_of(item.metadata)
    return item if acl is None else replace(item, acl=acl, metadata=metadata)
