"""Random ACLs of folders and documents, and who may see them by the guide."""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape, quoteattr

from feedferry.schemas.acl import Scope
from feedferry.schemas.membership import Member
from feedferry.transforms.access.index_fields import tokens_of
from feedferry.transforms.storage.atomic import read_rejects
from support.runs import chosen, convert

Push = Callable[[str, str], dict[str, str]]
FoundBy = Callable[[list[str]], list[str]]
HOST = "http://docs.example.com/"
DOCUMENTS = chosen(usual=250, full=5_000)
USERS = chosen(usual=40, full=200)
"""Each document is searched by each user, at each of two nights: 20,000 decisions, or 2 million."""

PARENT, CHILD, BOTH, LEAF = (
    "parent-overrides",
    "child-overrides",
    "and-both-permit",
    "leaf-node",
)
MAX_DEPTH = 6
USER_NAMES = ("ann", "Ann", "bob", "ACME\\bob", 'x","us:Default:ann', "élan", "carol@example.com")
GROUP_NAMES = ("staff", "Staff", "heads", "board", "a b", "ann")
NAMESPACES = ("Default", "Other")


class Entry(NamedTuple):
    """A principal of an ACL."""

    scope: str
    name: str
    namespace: str
    is_denied: bool
    is_any_case: bool


class Node(NamedTuple):
    """An ACL: its entries, how its children inherit from it, and its parent."""

    entries: Sequence[Entry]
    rule: str
    parent: str | None


class Person(NamedTuple):
    """A user in a search, with all groups: also those of groups."""

    names: frozenset[tuple[str, str, str]]


class BrokenChainError(Exception):
    """A chain without a decision."""


def names_person(entry: Entry, person: Person) -> bool:
    if not entry.is_any_case:
        return (entry.scope, entry.namespace, entry.name) in person.names
    return any(
        (scope, namespace, name.casefold()) == (entry.scope, entry.namespace, entry.name.casefold())
        for scope, namespace, name in person.names
    )


def own_permission(node: Node, person: Person) -> bool | None:
    """Permit (True), deny (False) or INDETERMINATE (None)."""
    named = [entry for entry in node.entries if names_person(entry, person)]
    if not named:
        return None
    return not any(entry.is_denied for entry in named)


def permission(node: Node, tree: Mapping[str, Node], person: Person) -> bool | None:
    """Decide by the table of the guide, "inheritance-type Attribute"."""
    own = own_permission(node, person)
    if node.parent is None:
        return own
    parent = tree.get(node.parent)
    if parent is None or parent.rule == LEAF:
        raise BrokenChainError
    above = permission(parent, tree, person)
    if parent.rule == BOTH:
        return own is True and above is True
    first, then = (above, own) if parent.rule == PARENT else (own, above)
    return then if first is None else first


def may_see(node: Node | None, tree: Mapping[str, Node], person: Person) -> bool:
    if node is None:
        return True
    try:
        return permission(node, tree, person) is True
    except BrokenChainError:
        return False


class World:
    """Random ACLs of folders and documents, and users with groups in groups."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.groups_of_groups = {
            (name, namespace): [self._some_group() for _ in range(self.random.randrange(3))]
            for name in GROUP_NAMES
            for namespace in NAMESPACES
        }
        self.people = [self._person() for _ in range(USERS)]
        self.folders: dict[str, Node] = {}
        self.documents: dict[str, Node | None] = {}
        self.change()

    def change(self) -> None:
        """Replace the ACLs of all folders and documents."""
        levels: list[list[str]] = [[] for _ in range(MAX_DEPTH)]
        self.folders.clear()
        for number in range(DOCUMENTS // 2):
            depth = self.random.randrange(MAX_DEPTH - 1)
            url = f"{HOST}folder/{number}"
            above = levels[depth - 1] if depth else []
            parent = self.random.choice(above) if above else None
            if self.random.random() < 0.02:
                parent = f"{HOST}unknown"
            self.folders[url] = self._node(parent)
            levels[depth if parent else 0].append(url)
        names = [*self.folders]
        for number in range(DOCUMENTS):
            parent = None if self.random.random() < 0.1 else self.random.choice(names)
            node = None if self.random.random() < 0.05 else self._node(parent)
            self.documents[f"{HOST}document/{number}"] = node

    def feed(self) -> str:
        return "".join(
            [
                "<gsafeed><header><datasource>docs</datasource>"
                "<feedtype>incremental</feedtype></header><group>\n",
                *(self._acl(node, f" url={quoteattr(url)}") for url, node in self.folders.items()),
                *(self.record_of(url, node) for url, node in self.documents.items()),
                "</group></gsafeed>\n",
            ]
        )

    def visible(self, person: Person) -> list[str]:
        found = self.documents.items()
        return sorted(url for url, node in found if may_see(node, self.folders, person))

    def _node(self, parent: str | None) -> Node:
        entries = [self._entry() for _ in range(self.random.randrange(5))]
        rules = (PARENT, CHILD, BOTH) * 4 + (LEAF,)
        return Node(entries, self.random.choice(rules), parent)

    def _entry(self) -> Entry:
        scope = self.random.choice(("user", "group"))
        names = USER_NAMES if scope == "user" else GROUP_NAMES
        return Entry(
            scope,
            self.random.choice(names),
            self.random.choice(NAMESPACES),
            self.random.random() < 0.3,
            self.random.random() < 0.3,
        )

    def _some_group(self) -> tuple[str, str]:
        return self.random.choice(GROUP_NAMES), self.random.choice(NAMESPACES)

    def _person(self) -> Person:
        waiting = [self._some_group() for _ in range(self.random.randrange(3))]
        groups: set[tuple[str, str]] = set()
        while waiting:
            group = waiting.pop()
            if group not in groups:
                groups.add(group)
                waiting += self.groups_of_groups[group]
        name = self.random.choice((*USER_NAMES, "ANN", "nobody"))
        namespaces = self.random.choice((NAMESPACES[:1], NAMESPACES))
        users = {("user", namespace, name) for namespace in namespaces}
        return Person(frozenset(users | {("group", where, what) for what, where in groups}))

    def _acl(self, node: Node, words: str = "") -> str:
        parent = "" if node.parent is None else f" inherit-from={quoteattr(node.parent)}"
        principals = "".join(
            f'<principal scope="{entry.scope}" access="{"deny" if entry.is_denied else "permit"}"'
            f' namespace="{entry.namespace}" case-sensitivity-type="everything-case-'
            f'{"in" if entry.is_any_case else ""}sensitive">{escape(entry.name)}</principal>'
            for entry in node.entries
        )
        return f'<acl inheritance-type="{node.rule}"{parent}{words}>{principals}</acl>\n'

    def record_of(self, url: str, node: Node | None) -> str:
        acl = "" if node is None else self._acl(node)
        return f'<record url="{url}" mimetype="text/plain">{acl}<content>text</content></record>\n'


def tokens_of_person(person: Person) -> list[str]:
    """Return the tokens of a search of a person."""
    members = [
        Member(name=name, scope=Scope[scope.upper()], namespace=namespace)
        for scope, namespace, name in sorted(person.names)
    ]
    return tokens_of(members)


def public_feed(world: World) -> str:
    """Return a feed of all documents, which everyone may see."""
    public = "".join(world.record_of(url, None) for url in world.documents)
    head, _, _ = world.feed().partition("<group>")
    return f"{head}<group>{public}</group></gsafeed>"


def check_nights(world: World, push: Push, found_by: FoundBy) -> None:
    """Send a world twice to a server, and search all documents of it as all people.

    `push` returns the codes of rejects by URL, `found_by` the documents that a search of tokens
    finds.
    """
    assert push("public", public_feed(world)) == {}
    assert found_by(tokens_of_person(Person(frozenset()))) == sorted(world.documents)
    for night in ("first", "second"):
        set_aside = push(night, world.feed())
        assert {*set_aside.values()} <= {"acl-chain-broken", "acl-chain-leaf", "acl-complex"}
        inexact = {url for url, code in set_aside.items() if code == "acl-complex"}
        assert len(inexact) < DOCUMENTS // 10
        wrong = []
        for person in world.people:
            expected = [url for url in world.visible(person) if url not in inexact]
            found = found_by(tokens_of_person(person))
            if found != expected:
                wrong.append((person, {*found} ^ {*expected}))
        assert wrong == []
        world.change()


def pushed_rejects(folder: Path, name: str, feed: str, *, to: str, url: str) -> dict[str, str]:
    """Convert and push a feed; return the codes of its rejects by URL."""
    path = folder / f"{name}.xml"
    path.write_text(feed, "utf-8")
    output = folder / name
    code = convert(
        *(str(path), "-o", str(output), "--to", to, "--push-to", url, "--max-rejects", "100%")
    )
    found = dict(_rejects(output))
    assert code == bool(found)
    return found


def _rejects(folder: Path) -> Iterator[tuple[str, str]]:
    for path in sorted(folder.rglob("*.avro")):
        for reject in read_rejects(path):
            assert reject.url is not None
            yield reject.url, reject.code
