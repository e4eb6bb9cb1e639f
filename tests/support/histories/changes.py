"""What changes in a night, and the feeds that state it."""

from collections.abc import Iterator, Sequence
from typing import Literal
from xml.sax.saxutils import escape, quoteattr

import msgspec
from msgspec.structs import replace

from support.histories.source_state import Group, Item, Key, Named, SourceState, StatedAcl

HOST = "http://h.example/"
DATASOURCES = ("docs", "wiki")
OF_NO_DOCUMENT = (
    '<record mimetype="text/plain"><content>of no document</content></record>',
    '<record mimetype="text/plain"><content>of no document',
    '<record ur="x" mimetype="text/plain"><content>R & D</content></record>',
    '<acl inheritance-type="child-overrides"><principal scope="user" acc',
    "</content></record>",
)
"""Records and ACLs without a URL; some are no XML."""


class Put(msgspec.Struct, frozen=True, kw_only=True):
    """An item is stated again: its ACL, its content, or both.

    A damage of the ACL or of the content leaves the URL readable, `all` does not. With `repeats`,
    the item as it was before is sent first.
    """

    key: Key
    item: Item
    sends: Literal["all", "acl", "content"] = "all"
    damage: Literal["", "acl", "content", "all"] = ""
    repeats: bool = False


class Delete(msgspec.Struct, frozen=True, kw_only=True):
    key: Key


class Join(msgspec.Struct, frozen=True, kw_only=True):
    """A user gets groups in place of those before."""

    login: str
    groups: frozenset[Group]


class Regroup(msgspec.Struct, frozen=True, kw_only=True):
    """A group of a groups feed gets members in place of those before.

    Without members, a full groups feed lacks it. A damage makes it unknown; the directory has none.
    """

    group: Group
    members: tuple[Named, ...] | None
    is_damaged: bool = False


class Replace(msgspec.Struct, frozen=True, kw_only=True):
    """The job begins to replace groups by their users, or ends it."""

    replaces_groups: bool


class Rename(msgspec.Struct, frozen=True, kw_only=True):
    """The table of names changes; everything is sent again, or nothing for that reason."""

    table: dict[str, str]
    resends: bool = True


Change = Put | Delete | Join | Regroup | Rename | Replace


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """A fault of the server at one of the requests `_bulk` of a night.

    An action is refused (400), all are (429), or the request is (503): before it is done, after
    that, or it is done later, by the given number of requests.
    """

    at: int
    kind: Literal["refuse", "throttle", "unavailable", "lost-reply", "late"]
    number: int = 0


class Night(msgspec.Struct, frozen=True, kw_only=True):
    """The changes of a night, the datasources with a full feed, faults, and kills.

    With `has_full_groups`, the groups feed of the directory is full.

    A kill is the number of an operation of a run; `is_fresh` abandons the run that was killed.
    """

    changes: tuple[Change, ...] = ()
    full: frozenset[str] = frozenset()
    has_full_groups: bool = False
    faults: tuple[Fault, ...] = ()
    kills: tuple[int, ...] = ()
    is_fresh: bool = False
    order: int = 0


def sent_again(item: Item) -> Literal["all", "acl"]:
    """Return what a feed of everything has of an item: all, or the ACL of a missing document."""
    return "acl" if item.is_alone and not item.has_content else "all"


def is_sent(put: Put) -> bool:
    """Whether a document is sent, without a damage."""
    return put.sends != "acl" and not put.damage and not put.item.is_folder


def resends(night: Night) -> bool:
    """Whether a night sends everything again, as names have changed."""
    return any(isinstance(change, Rename) and change.resends for change in night.changes)


def repeated(before: SourceState, night: Night) -> list[Put]:
    """Return the documents that a night sends twice, first as they were before."""
    return [
        change
        for change in night.changes
        if isinstance(change, Put)
        and change.repeats
        and (old := before.items.get(change.key)) is not None
        and old.is_known
        and old.has_content
    ]


def applied(state: SourceState, night: Night, *, is_corrected: bool = False) -> SourceState:
    """Return the last known state of the source after a night.

    A feed of everything, full or not, states all that is not damaged in it. A run stops at a
    damage of a full feed, which is then corrected.
    """
    for change in night.changes:
        state = _changed(state, change, is_corrected=is_corrected)
    damaged = {put.key for put in night.changes if isinstance(put, Put) and put.damage}
    sends_all = is_corrected or resends(night)
    for key, item in state.items.items():
        if key[0] in night.full or (sends_all and key not in damaged):
            has_content = not item.is_folder and sent_again(item) == "all"
            stated = replace(item, is_known=True, has_content=has_content)
            if stated != item:
                state = state.with_item(key, stated)
    return state


def _changed(state: SourceState, change: Change, *, is_corrected: bool) -> SourceState:
    match change:
        case Delete():
            return state.with_item(change.key, None)
        case Rename():
            return replace(state, table=change.table)
        case Join():
            login = replace(state.logins[change.login], groups=change.groups)
            return replace(state, logins={**state.logins, change.login: login})
        case Replace():
            return replace(state, replaces_groups=change.replaces_groups)
        case Regroup():
            return _regrouped(state, change, is_corrected=is_corrected)
        case Put():
            return _with_put(state, change)


def _regrouped(state: SourceState, change: Regroup, *, is_corrected: bool) -> SourceState:
    groups = {**state.groups}
    groups.pop(change.group, None)
    if change.members is not None:
        groups[change.group] = change.members
    is_unknown = change.is_damaged and not is_corrected
    named = {change.group}
    unknown = state.unknown_groups | named if is_unknown else state.unknown_groups - named
    return replace(state, groups=groups, unknown_groups=unknown)


def _with_put(state: SourceState, change: Put) -> SourceState:
    if change.damage == "all":
        return state
    before = state.items.get(change.key)
    is_loaded = change.sends != "acl" and not change.damage
    had_content = before is not None and before.has_content
    # a content alone states no ACL, so that an unknown one stays unknown
    is_known = change.damage != "acl" and (
        change.sends != "content" or before is None or before.is_known
    )
    acl = change.item.acl
    if change.sends == "content":
        acl = None if before is None else before.acl
    if change.damage == "content" and not change.item.is_alone and before is not None:
        acl, is_known = before.acl, before.is_known
    item = replace(change.item, acl=acl, has_content=had_content or is_loaded, is_known=is_known)
    if item.is_folder:
        item = replace(item, has_content=False)
    return state.with_item(change.key, item)


def feeds(before: SourceState, night: Night, *, is_corrected: bool) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each feed of a night, in the order in which they are read.

    Corrected feeds have everything, without a damage that stopped the run.
    """
    after, number = applied(before, night), 0
    repeating = repeated(before, night)
    sends_all = is_corrected or resends(night)
    for datasource in DATASOURCES:
        parts: list[list[str]] = [[], []]
        puts = [
            change
            for change in night.changes
            if isinstance(change, Put | Delete) and change.key[0] == datasource
        ]
        is_full = datasource in night.full
        if is_full or sends_all:
            is_stopping = is_corrected and is_full
            damaged = {
                put.key: put
                for put in puts
                if isinstance(put, Put) and put.damage and not is_stopping
            }
            for key, item in after.items.items():
                if key[0] == datasource:
                    damage = damaged[key].damage if key in damaged else ""
                    if not (is_corrected and damage == "all"):
                        parts[0] += _elements(key, item, sent_again(item), damage)
            if not is_full:
                parts[0] += [_deletion(put.key) for put in puts if isinstance(put, Delete)]
        else:
            for put in puts:
                if isinstance(put, Delete):
                    parts[1].append(_deletion(put.key))
                    continue
                if put in repeating:
                    parts[0] += _elements(put.key, before.items[put.key])
                parts[1] += _elements(put.key, put.item, put.sends, put.damage)
        for elements in parts:
            if elements:
                number += 1
                feedtype = "full" if is_full else "incremental"
                yield (
                    f"{number}-{datasource}.xml",
                    _feed(datasource, feedtype, elements, night.order),
                )


def _feed(datasource: str, feedtype: str, elements: Sequence[str], order: int) -> str:
    turn = order % len(elements)
    head = f"<datasource>{datasource}</datasource><feedtype>{feedtype}</feedtype>"
    lines = "\n".join((*elements[turn:], *elements[:turn]))
    return f"<gsafeed><header>{head}</header><group>\n{lines}\n</group></gsafeed>\n"


def _elements(key: Key, item: Item, sends: str = "all", damage: str = "") -> list[str]:
    url = quoteattr(HOST + key[1])
    acl = "" if item.acl is None else _principals(item.acl, is_damaged=damage == "acl")
    loses_words = damage == "acl" and item.version % 2 == 1
    words = "" if item.acl is None or loses_words else _words(item.acl)
    alone = f"<acl url={url}{words}>{acl}</acl>"
    if damage == "all":
        return [OF_NO_DOCUMENT[item.version % len(OF_NO_DOCUMENT)]]
    if item.is_folder or sends == "acl":
        return [alone]
    content = f"<content>version {item.version}</content>"
    if damage == "content":
        content = '<content encoding="base64binary">#</content>'
    attached = "" if item.is_alone or item.acl is None else f"<acl{words}>{acl}</acl>"
    record = f'<record url={url} mimetype="text/plain">{attached}{content}</record>'
    if not item.is_alone or item.acl is None or sends == "content":
        return [record]
    return [alone, record]


def _deletion(key: Key) -> str:
    return f'<record url={quoteattr(HOST + key[1])} action="delete" mimetype="text/plain"/>'


def _words(acl: StatedAcl) -> str:
    words = f' inheritance-type="{acl.rule.value}"'
    if acl.parent is not None:
        words += f" inherit-from={quoteattr(HOST + acl.parent)}"
    return words


def _principals(acl: StatedAcl, *, is_damaged: bool) -> str:
    text = "".join(map(_principal, acl.principals))
    return text + '<principal scope="user" access="permt">alice</principal>' * is_damaged


def _principal(named: Named) -> str:
    scope, access = ("group" if named.is_group else "user"), ("deny" if named.denies else "permit")
    words = ' case-sensitivity-type="everything-case-insensitive"' * named.any_case
    if named.namespace != "Default":
        words += f" namespace={quoteattr(named.namespace)}"
    return f'<principal scope="{scope}" access="{access}"{words}>{escape(named.name)}</principal>'
