"""Formats, sources and appliances by their names: ours, and those of other packages.

Another package adds an object of its own by an entry point with the name of the object::

    [project.entry-points."feedferry.formats"]
    rss = "acme_feeds.rss:RSS"

Entry points are read when a name is not ours, or when all objects are needed. An object is imported
when its name is used. One that cannot be imported is left out of lists, with a warning.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from typing import Generic, Protocol, TypeVar

from feedferry.schemas.errors import ConfigError

OURS = "feedferry"


class UnusableWarning(UserWarning):
    """An object of another package cannot be imported."""


class Named(Protocol):
    """An object of a registry."""

    @property
    def name(self) -> str: ...


Item = TypeVar("Item", bound=Named)


class Registry(Generic[Item]):
    """Objects of one kind by their names, in order: ours, then those of a group of entry points.

    `faults` are the errors of those that cannot be imported, by their names.
    """

    def __init__(self, group: str, kind: type[Item], *items: Item) -> None:
        self._group, self._kind = group, kind
        self.ours: tuple[Item, ...] = ()
        self._items: dict[str, Item] = {}
        self.faults: dict[str, str] = {}
        self.include(*items)

    def include(self, *items: Item) -> None:
        """Add objects of ours, after those that are there."""
        self.ours += items
        self._items |= {item.name: item for item in items}

    def __iter__(self) -> Iterator[Item]:
        yield from [*self._items.values()]
        for name in self._entry_points:
            if name not in self._items:
                try:
                    yield self._load(name)
                except ConfigError as exc:
                    if name not in self.faults:
                        self.faults[name] = str(exc)
                        warnings.warn(str(exc), UnusableWarning, stacklevel=2)

    def __reversed__(self) -> Iterator[Item]:
        return iter([*self][::-1])

    @property
    def names(self) -> tuple[str, ...]:
        """All names, also of objects that cannot be imported."""
        return tuple(dict.fromkeys((*self._items, *self._entry_points)))

    def find(self, name: str | None) -> Item | None:
        """Return the object with a name, None if there is none.

        Raise ConfigError for an object that cannot be imported, and for a name with two objects.
        """
        if name is None:
            return None
        item = self._items.get(name)
        return self._load(name) if item is None and name in self._entry_points else item

    @contextmanager
    def registered(self, *items: Item) -> Iterator[None]:
        """Add objects in this process, for the time of a `with` block.

        Raise ValueError for a name that is in use.
        """
        for item in items:
            if item.name in self._items:
                raise ValueError(f"{item.name!r} is in use; expected another name")
            self._items[item.name] = item
        try:
            yield
        finally:
            for item in items:
                del self._items[item.name]

    @cached_property
    def _entry_points(self) -> dict[str, EntryPoint]:
        found: dict[str, EntryPoint] = {}
        for point in entry_points(group=self._group):
            other = _package(found[point.name]) if point.name in found else OURS
            if point.name in found or point.name in self._items:
                raise ConfigError(
                    f"{self._group}: {point.name!r} is in {other} and in {_package(point)};"
                    f" expected different names; remove {_package(point)}"
                )
            found[point.name] = point
        return found

    def _load(self, name: str) -> Item:
        point = self._entry_points[name]
        where = f"{self._group}: {name!r} of {_package(point)}"
        try:
            item = point.load()
        except (Exception, SystemExit) as exc:  # a module of another package may raise anything
            raise ConfigError(f"{where}: {exc!r}; update or remove {_package(point)}") from exc
        if not isinstance(item, self._kind) or item.name != name:
            raise ConfigError(f"{where}: {point.value}; expected a {self._kind.__name__} {name!r}")
        self._items[name] = item
        return item


def _package(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else point.module
