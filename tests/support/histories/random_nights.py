"""Random nights of a source."""

import random
from collections.abc import Iterator

from msgspec.structs import replace

from support.histories.changes import (
    DATASOURCES,
    Change,
    Delete,
    Fault,
    Join,
    Night,
    Put,
    Regroup,
    Rename,
    Replace,
)
from support.histories.groups_feeds import in_directory
from support.histories.source_state import (
    Group,
    Item,
    Key,
    Login,
    Named,
    Rule,
    SourceState,
    StatedAcl,
)

USERS = ("alice", "bob", "carol", "Dave", "erin")
MAPPED = USERS[:3]
GROUPS = ("staff", "board", "temps")
FED_GROUPS = (
    ("Default", "team-a"),
    ("Default", "team-b"),
    ("sp", "team-c"),
    ("Default", "crew-a"),
    ("Default", "Crew-b"),
)
"""The groups of groups feeds."""

IN_SP = ("alice", "erin")
KINDS = ("folder", "new-folder", "new", "acl", "content", "delete", "prune", "move")
"""What changes of items."""

MOST_DOCUMENTS = 24
MOST_FOLDERS = 10
OPERATIONS = 400
"""The last operation of a run at which it may be killed; most runs have more, some fewer."""


def first_state() -> SourceState:
    """Return a source without items, and its log-ins; the last one has no rights of its own."""
    logins = {
        name: Login(names=(("Default", name), *((("sp", name),) if name in IN_SP else ())))
        for name in USERS
    }
    return SourceState(logins={**logins, "stranger": Login(names=(("Default", "stranger"),))})


class RandomNights:
    """Makes nights; the same seed makes the same ones of the same states."""

    def __init__(self, seed: int) -> None:
        self._choice = random.Random(seed)
        self._count = 0

    def first(self, state: SourceState) -> Night:
        """Return a night that loads a tree."""
        changes: list[Change] = [Join(login=name, groups=self._groups()) for name in USERS]
        changes += [Regroup(group=group, members=self._members(group)) for group in FED_GROUPS]
        for count, is_folder in ((6, True), (12, False)):
            for _ in range(count):
                put = self._new(state, is_folder=is_folder)
                changes.append(put)
                state = state.with_item(put.key, put.item)
        return Night(changes=tuple(changes))

    def next(self, state: SourceState, listed: frozenset[Key]) -> Night:
        """Return a night; `listed` are documents that are rejected or withheld."""
        choice = self._choice
        changes = self._changes(state, listed)
        if choice.random() < 0.1:
            turned = choice.sample(MAPPED, 2)
            table = dict(zip(turned, reversed(turned), strict=True))
            changes.insert(0, Rename(table=table, resends=choice.random() < 0.4))
        if choice.random() < 0.05:
            changes.insert(0, Replace(replaces_groups=not state.replaces_groups))
        has_full_groups = choice.random() < 0.05
        if has_full_groups and choice.random() < 0.5:
            held = [group for group in sorted(state.groups) if in_directory(group)]
            changes += [Regroup(group=group, members=None) for group in held[1:2]]
        full = frozenset[str]()
        if choice.random() < 0.12:
            full = frozenset([choice.choice(DATASOURCES)])
        kills = [choice.randrange(1, OPERATIONS)] if choice.random() < 0.3 else []
        if kills and choice.random() < 0.3:
            kills.append(choice.randrange(1, OPERATIONS))
        return Night(
            changes=tuple(changes),
            full=full,
            has_full_groups=has_full_groups,
            faults=tuple(self._faults()),
            kills=tuple(kills),
            is_fresh=choice.random() < 0.2,
            order=choice.randrange(10),
        )

    def _changes(self, state: SourceState, listed: frozenset[Key]) -> list[Change]:
        choice, changes = self._choice, dict[Key, list[Change]]()
        joins: list[Change] = []
        for key in sorted(listed):
            item = state.items.get(key)
            if item is not None and choice.random() < 0.6:
                changes[key] = [Put(key=key, item=item)]
        for group in sorted(state.unknown_groups):
            if choice.random() < 0.7:
                joins.append(Regroup(group=group, members=state.groups[group]))
        for _ in range(choice.randrange(1, 6)):
            for change in self._change(state):
                if isinstance(change, Put | Delete):
                    changes.setdefault(change.key, [change])
                else:
                    joins.append(change)
        return [*joins, *(change for of_key in changes.values() for change in of_key)]

    def _change(self, state: SourceState) -> Iterator[Change]:
        choice = self._choice
        folders = [key for key, item in state.items.items() if item.is_folder]
        documents = [key for key, item in state.items.items() if not item.is_folder]
        kind = choice.choices(
            (*KINDS, "join", "regroup"),
            (5, 1, 2, 4, 2, 1, 0.4, 1, 1.5, 2),
        )[0]
        if kind == "join":
            yield Join(login=choice.choice(USERS), groups=self._groups())
        elif kind == "regroup":
            group = choice.choice(FED_GROUPS)
            is_damaged = not in_directory(group) and choice.random() < 0.1
            yield Regroup(group=group, members=self._members(group), is_damaged=is_damaged)
        elif kind == "folder" and folders:
            key = choice.choice(folders)
            yield self._put(state, key, replace(state.items[key], acl=self._acl(state, key)))
        elif kind == "new-folder" and len(folders) < MOST_FOLDERS:
            yield self._new(state, is_folder=True)
        elif kind == "prune" and folders:
            yield Delete(key=choice.choice(folders))
        elif kind == "new" and len(documents) < MOST_DOCUMENTS:
            yield self._new(state, is_folder=False)
        elif documents:
            yield from self._of_document(state, kind, choice.choice(documents))

    def _of_document(self, state: SourceState, kind: str, key: Key) -> Iterator[Change]:
        item = state.items[key]
        item = replace(item, version=item.version + 1)
        if kind == "delete":
            yield Delete(key=key)
        elif kind == "move":
            yield Delete(key=key)
            self._count += 1
            moved = (key[0], f"{key[0]}/d{self._count}")
            yield Put(key=moved, item=replace(item, is_known=True))
        elif kind == "content":
            sends = "content" if item.is_alone and item.has_content else "all"
            yield self._put(state, key, item, sends=sends)
        else:
            sends = "acl" if self._choice.random() < 0.5 else "all"
            acl = self._acl(state, key)
            is_public = not item.is_alone and sends == "all" and self._choice.random() < 0.1
            is_alone = item.is_alone or sends == "acl"  # a document without an ACL takes it
            changed = replace(item, acl=None if is_public else acl, is_alone=is_alone)
            yield self._put(state, key, changed, sends=sends)

    def _new(self, state: SourceState, *, is_folder: bool) -> Put:
        choice = self._choice
        datasource = choice.choice(DATASOURCES)
        self._count += 1
        path = f"{datasource}/{'f' if is_folder else 'd'}{self._count}"
        if is_folder:
            missing = sorted(self._missing(state))
            if missing and choice.random() < 0.6:
                path = choice.choice(missing)
            elif choice.random() < 0.2:
                path = f"shared/f{choice.randrange(3)}"
        key = datasource, path
        is_alone = choice.random() < 0.4
        is_public = not is_folder and not is_alone and choice.random() < 0.15
        acl = None if is_public else self._acl(state, key)
        item = Item(acl=acl, is_folder=is_folder, is_alone=is_alone, has_content=not is_folder)
        old = state.items.get(key)
        if old is not None:
            item = replace(old, acl=self._acl(state, key))
        return self._put(state, key, item)

    def _missing(self, state: SourceState) -> set[str]:
        """Return the paths from which items inherit, and which have no ACL."""
        paths = {path for _, path in state.items}
        parents = {item.acl.parent for item in state.items.values() if item.acl is not None}
        return {path for path in parents if path is not None and "/f" in path and path not in paths}

    def _put(self, state: SourceState, key: Key, item: Item, *, sends: str = "all") -> Put:
        choice, old = self._choice, state.items.get(key)
        damage = ""
        if choice.random() < 0.12:
            damage = choice.choice(("acl", "acl", "content", "all"))
        if damage == "acl" and (item.acl is None or sends == "content"):
            damage = ""
        if damage == "content":
            is_possible = not item.is_folder and sends != "acl" and old is not None
            damage = "content" if is_possible and not item.is_alone else ""
            if damage and old is not None:
                item = replace(item, acl=old.acl)
        repeats = not item.is_folder and not damage and choice.random() < 0.3
        return Put(key=key, item=item, sends=sends, damage=damage, repeats=repeats)  # type: ignore[arg-type]

    def _acl(self, state: SourceState, key: Key) -> StatedAcl:
        choice = self._choice
        is_folder = "/f" in key[1]
        rules, weights = [*Rule], (4, 3, 3, 0.3) if is_folder else (1, 1, 1, 6)
        rule = choice.choices(rules, weights)[0]
        count = choice.choices(range(4), (1, 3, 3, 1))[0]
        principals = tuple(self._principal() for _ in range(count))
        chance = 0.6 if is_folder else 0.8
        parent = self._parent(state, key) if choice.random() < chance else None
        return StatedAcl(rule=rule, parent=parent, principals=principals)

    def _parent(self, state: SourceState, key: Key) -> str | None:
        choice = self._choice
        if choice.random() < 0.04:
            self._count += 1
            return f"{key[0]}/f{self._count}"  # a folder that has not been sent
        near = [
            path
            for (datasource, path), item in state.items.items()
            if item.acl is not None
            and (item.is_folder or choice.random() < 0.05)
            and (datasource == key[0] or choice.random() < 0.1)
            and path != key[1]
        ]
        if "/f" in key[1] and choice.random() < 0.95:  # most folders make no cycles
            near = [path for path in near if path < key[1]]
        return choice.choice(near) if near else None

    def _principal(self) -> Named:
        choice = self._choice
        is_group = choice.random() < 0.45
        if is_group and choice.random() < 0.5:
            namespace, name = choice.choice(FED_GROUPS)
            denies, any_case = choice.random() < 0.25, choice.random() < 0.2
            name = name.upper() if any_case else name
            return Named(
                name=name, is_group=True, denies=denies, any_case=any_case, namespace=namespace
            )
        name = choice.choice(GROUPS if is_group else USERS)
        any_case = name not in MAPPED and choice.random() < 0.3
        if name not in MAPPED and choice.random() < 0.3:
            name = choice.choice((name.upper(), name.lower()))
        return Named(
            name=name,
            is_group=is_group,
            denies=choice.random() < 0.25,
            any_case=any_case,
            namespace="sp" if choice.random() < 0.1 else "Default",
        )

    def _members(self, group: Group) -> tuple[Named, ...]:
        """Return users and groups, some of which have the group as a member."""
        choice = self._choice
        users = choice.sample(USERS, choice.choices(range(4), (1, 3, 2, 1))[0])
        others = [other for other in FED_GROUPS if other != group]
        inner = choice.sample(others, choice.choices(range(3), (5, 3, 1))[0])
        members = [Named(name=name, any_case=name not in MAPPED) for name in users]
        members += [
            Named(name=name, is_group=True, namespace=namespace) for namespace, name in inner
        ]
        if choice.random() < 0.2:
            members.append(Named(name=choice.choice(GROUPS), is_group=True))
        if choice.random() < 0.1:
            members.append(Named(name="alice", namespace="sp"))
        return tuple(members)

    def _groups(self) -> frozenset[tuple[str, str]]:
        choice = self._choice
        groups = choice.sample(GROUPS, choice.choices(range(3), (1, 2, 1))[0])
        return frozenset(("sp" if choice.random() < 0.15 else "Default", name) for name in groups)

    def _faults(self) -> Iterator[Fault]:
        choice = self._choice
        kinds = ("refuse", "throttle", "unavailable", "lost-reply", "late")
        for _ in range(choice.choices(range(3), (5, 3, 2))[0]):
            kind = choice.choice(kinds)
            yield Fault(at=choice.randrange(5), kind=kind, number=choice.randrange(1, 9))  # type: ignore[arg-type]
