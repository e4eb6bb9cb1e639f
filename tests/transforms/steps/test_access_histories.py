"""Random histories of feeds, groups and steps: no document is wider than its source permits.

The evaluator decides as the guide does, about what the feeds mean: what is damaged in them permits
nobody. It shares no code with the program.
"""

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import pytest
from msgspec.structs import replace

from feedferry.pipelines.convert.inputs.step_inputs import SpanInputs
from feedferry.schemas.account import Account, check_balance, merge
from feedferry.schemas.acl import Access, Scope
from feedferry.schemas.errors import StoppedError
from feedferry.schemas.record import Action, Record
from feedferry.schemas.span import Span
from feedferry.transforms.conversion.conversion_settings import Settings
from feedferry.transforms.conversion.convert import convert
from feedferry.transforms.formats import ReadOptions, WriteOptions
from feedferry.transforms.formats.fast_path.elements.singly import singly
from feedferry.transforms.rules.adapt import Target
from feedferry.transforms.rules.older_versions import find_older_versions, store_older_versions
from feedferry.transforms.sources import SpanRequest, read_span
from feedferry.transforms.steps import StepResult, Steps, read_steps
from support.rehearsal import gsa_feed

USERS, GROUPS = ("ann", "bob", "cid", "dan"), ("staff", "board", "externals")
FOLDERS, PAGES = ("d0/", "d1/"), ("p0", "p1", "p2?a=1&b=2")
HOST = "http://www.example.com/"
TYPES = ("child-overrides", "parent-overrides", "and-both-permit", "leaf-node")
DAMAGES = ("acl", "markup", "tag")
"""An ACL that is not understood, a record that is not XML, and one whose URL is lost."""

IDENTITIES = "[['re:(ann|bob|cid|staff|board)', '\\1']]"
STEPS = (
    f"principals: {{rewrite: {IDENTITIES}, unmapped: deny}}",
    f"principals: {{rewrite: {IDENTITIES}, unmapped: reject}}",
    "principals: {namespaces: {Default: people}, case: lower}",
    "metadata: {set: {site: a}}",
    "acl: effective",
    "acl: {inexact: deny}",
    "acl: {groups: groups.xml}",
    "acl: {groups: groups.xml, inexact: deny}",
)


class Entry(NamedTuple):
    """A principal of an ACL."""

    name: str
    permits: bool


class StatedAcl(NamedTuple):
    """An ACL as a feed means it."""

    entries: tuple[Entry, ...]
    rule: str | None = None
    parent: str | None = None


class Version(NamedTuple):
    """A record as a feed means it; a deletion has no document, and a public one no ACL."""

    url: str
    acl: StatedAcl | None
    is_alone: bool = False
    is_deletion: bool = False
    damage: str | None = None


class Group(NamedTuple):
    """A membership as a groups feed means it."""

    name: str
    members: tuple[str, ...]
    is_damaged: bool = False


State = Mapping[str, Version]


def text_of(version: Version) -> str:
    """Return a version as XML; U+0026 is escaped, unless that is its damage."""
    url = HOST + version.url.replace("&", "&amp;")
    if version.is_deletion:
        return f'<record url="{url}" action="delete" mimetype="text/plain"/>'
    inner = "" if version.acl is None else acl_text(version, url)
    if version.damage == "acl" and version.acl is None:
        inner = '<acl><principal scope="user" access="permt">ann</principal></acl>'
    if version.is_alone:
        return inner
    content = "R & D" if version.damage == "markup" else "text"
    name = "ur" if version.damage == "tag" else "url"
    return (
        f'<record {name}="{url}" mimetype="text/plain">{inner}<content>{content}</content></record>'
    )


def acl_text(version: Version, url: str) -> str:
    acl = version.acl
    assert acl is not None
    rule = f' inheritance-type="{acl.rule}"' if acl.rule else ""
    parent = f' inherit-from="{HOST}{acl.parent}"' if acl.parent else ""
    name = "ur" if version.damage == "tag" else "url"
    alone = f' {name}="{url}"' if version.is_alone else ""
    entries = "".join(
        f'<principal scope="{"group" if entry.name in GROUPS else "user"}"'
        f' access="{"permit" if entry.permits else "deny"}">{entry.name}</principal>'
        for entry in acl.entries
    )
    if version.damage is not None:
        entries += '<principal scope="user" access="deni">ann</principal>'
    return f"<acl{alone}{rule}{parent}>{entries}</acl>"


def groups_text(groups: Sequence[Group]) -> str:
    def principal(name: str, *, is_damaged: bool = False) -> str:
        scope = "SOMEBODY" if is_damaged else "GROUP" if name in GROUPS else "USER"
        return f'<principal namespace="Default" scope="{scope}">{name}</principal>'

    memberships = (
        f"<membership>{principal(group.name)}<members>"
        + "".join(principal(name, is_damaged=group.is_damaged) for name in group.members)
        + "</members></membership>"
        for group in groups
    )
    return f"<xmlgroups>{''.join(memberships)}</xmlgroups>"


def random_acl(chance: random.Random, *, is_folder: bool, parent: str | None) -> StatedAcl:
    """Return an ACL that permits somebody, and often denies a group."""
    names = chance.sample((*USERS, *GROUPS), chance.randrange(1, 4))
    entries = [Entry(name, chance.random() < 0.7) for name in names]
    if chance.random() < 0.4:
        entries.append(Entry(chance.choice(GROUPS), permits=False))
    rule = chance.choice(TYPES[:3]) if is_folder else chance.choice((None, *TYPES))
    return StatedAcl(tuple(entries), rule, parent)


def random_version(chance: random.Random) -> Version:
    is_folder = chance.random() < 0.4
    url = chance.choice(FOLDERS if is_folder else PAGES)
    if chance.random() < 0.1:
        return Version(url, None, is_deletion=True)
    damage = chance.choice(DAMAGES[:2]) if chance.random() < 0.15 else None
    damage = "tag" if chance.random() < 0.02 else damage
    if not is_folder and chance.random() < 0.05:
        return Version(url, None, damage=damage)
    folders = FOLDERS[:1] if url == FOLDERS[1] else () if is_folder else FOLDERS
    parent = chance.choice(folders) if folders and chance.random() < 0.6 else None
    acl = random_acl(chance, is_folder=is_folder, parent=parent)
    return Version(url, acl, is_alone=is_folder, damage=damage)


def random_history(chance: random.Random) -> list[list[Version]]:
    """Return feeds of which the first begins with an ACL of each folder."""
    folders = [
        Version(url, random_acl(chance, is_folder=True, parent=None), is_alone=True)
        for url in FOLDERS
    ]
    return [
        [
            *(() if number else folders),
            *(random_version(chance) for _ in range(chance.randrange(7))),
        ]
        for number in range(chance.randrange(1, 4))
    ]


def random_groups(chance: random.Random) -> list[Group]:
    """Return memberships, several of most groups."""
    return [
        Group(
            chance.choice(GROUPS),
            tuple(chance.sample((*USERS, *USERS, *GROUPS), chance.randrange(1, 3))),
            is_damaged=chance.random() < 0.08,
        )
        for _ in range(chance.randrange(2, 7))
    ]


def random_steps(chance: random.Random) -> list[str]:
    """Return steps in the order of a job: principals, and in most cases `acl`."""
    first = [chance.choice(STEPS[:4])] if chance.random() < 0.5 else []
    last = [chance.choice(STEPS[4:])] if chance.random() < 0.7 else []
    return first + last or ["metadata: {drop: x}"]


def state_after(history: Sequence[Version]) -> dict[str, Version]:
    """Return the newest version of each URL; it is not known whose version lost its URL."""
    state: dict[str, Version] = {}
    for version in history:
        if version.damage == "tag":
            continue
        if version.is_deletion:
            state.pop(version.url, None)
        else:
            state[version.url] = version
    return state


def groups_of(user: str, groups: Sequence[Group]) -> set[str]:
    """Return the user and its groups, and theirs."""
    names = {user}
    for _ in GROUPS:
        names |= {group.name for group in groups if names.intersection(group.members)}
    return names


def own_decision(acl: StatedAcl, names: set[str]) -> bool | None:
    """Return whether an ACL alone permits; a denial counts first."""
    accesses = {entry.permits for entry in acl.entries if entry.name in names}
    return None if not accesses else False not in accesses


def decision(acl: StatedAcl, names: set[str], state: State) -> bool | None:
    """Decide as the guide does; a chain that is broken, damaged or endless permits nobody."""
    chain, seen = [acl], set()
    while (parent := chain[-1].parent) is not None:
        above = state.get(parent)
        if parent in seen or above is None or above.damage or above.acl is None:
            return False
        if above.acl.rule in (None, "leaf-node"):
            return False
        seen.add(parent)
        chain.append(above.acl)
    made = own_decision(chain[-1], names)
    for below, above_acl in zip(chain[-2::-1], chain[:0:-1], strict=True):
        own = own_decision(below, names)
        if above_acl.rule == "and-both-permit":
            made = own is True and made is True
        elif above_acl.rule == "child-overrides":
            made = made if own is None else own
        else:
            made = own if made is None else made
    return made


def may_see(user: str, url: str, state: State, groups: Sequence[Group]) -> bool:
    version = state.get(url)
    if version is None or version.damage is not None or version.is_alone:
        return False
    if version.acl is None:
        return True
    return decision(version.acl, groups_of(user, groups), state) is True


def version_of(record: Record) -> Version:
    """Return a record that was written as a version."""
    url = record.url.removeprefix(HOST)
    if record.action is Action.DELETE:
        return Version(url, None, is_deletion=True)
    acl = record.acl
    if acl is None:
        return Version(url, None)
    assert {item.scope for item in acl.principals} <= {*Scope}
    stated = StatedAcl(
        tuple(Entry(item.name, item.access is Access.PERMIT) for item in acl.principals),
        acl.inheritance and acl.inheritance.value.lower().replace("_", "-"),
        acl.inherit_from and acl.inherit_from.removeprefix(HOST),
    )
    return Version(url, stated, is_alone=acl.alone)


def prepared(
    folder: Path, feeds: Sequence[Sequence[Version]], groups: Sequence[Group], steps_: Sequence[str]
) -> tuple[list[Span], Steps, Path]:
    """Write feeds, groups and steps; return the spans, and the steps with their folder."""
    (folder / "steps.yaml").write_text("transform:\n" + "".join(f"- {step}\n" for step in steps_))
    (folder / "groups.xml").write_text(groups_text(groups))
    spans = []
    for number, feed in enumerate(feeds):
        path = folder / f"{number}.xml"
        path.write_text(gsa_feed(*map(text_of, feed)))
        spans.append(
            Span(source=path.name, path=str(path), format="gsa-feed", source_ordinal=number)
        )
    work = folder / "work"
    work.mkdir()
    steps = read_steps(folder / "steps.yaml")
    steps.prepare(SpanInputs(spans, ReadOptions()), work)
    return spans, steps, work


def converted(
    folder: Path, feeds: Sequence[Sequence[Version]], groups: Sequence[Group], steps_: Sequence[str]
) -> tuple[Account, list[Version]]:
    """Convert feeds to an archive as a run does; return its account and its records, in order."""
    spans, steps, work = prepared(folder, feeds, groups, steps_)
    settings = Settings(
        folder=str(work),
        target=Target(format="avro"),
        reading=ReadOptions(),
        writing=WriteOptions(),
        max_chunk_bytes=1 << 30,
        steps=steps,
    )
    account = merge(convert(span, settings) for span in spans)
    older = find_older_versions(work, account)
    if older.refused:
        stored = store_older_versions(older, str(work))
        account = merge(convert(span, replace(settings, older_versions=stored)) for span in spans)
    return account, [version_of(record) for record in written(work, account)]


def written(work: Path, account: Account) -> Iterator[Record]:
    for chunk in account.chunks:
        request: SpanRequest[None] = SpanRequest(
            span=Span(source=chunk.path, path=str(work / chunk.path), format="avro")
        )
        with closing(read_span(request)) as results:
            yield from (item for item in singly(results) if isinstance(item, Record))


def check_history(seed: int) -> int:
    """Check one history; return how many documents some user sees, or -1 if the run stops."""
    chance = random.Random(seed)
    feeds, groups, steps = random_history(chance), random_groups(chance), random_steps(chance)
    history = [version for feed in feeds for version in feed]
    with TemporaryDirectory(prefix="feedferry-histories-") as name:
        try:
            account, versions = converted(
                Path(name), feeds, groups, steps or ["metadata: {drop: x}"]
            )
        except StoppedError:
            assert any(version.damage == "tag" for version in history)
            return -1
    check_balance(account)
    source, target = state_after(history), state_after(versions)
    visible = 0
    for url in PAGES:
        for user in USERS:
            if may_see(user, url, target, groups):
                visible += 1
                assert may_see(user, url, source, groups), (seed, url, user, steps)
    return visible


@pytest.mark.slow
def test_no_history_makes_a_document_wider_than_its_source() -> None:
    seen = [check_history(seed) for seed in range(300)]
    assert sum(count > 0 for count in seen) > 100
    assert seen.count(-1) < 30


def check_decisions(seed: int) -> Counter[str]:
    """Compare steps that know what they decided with new ones for each record; count results."""
    chance = random.Random(seed)
    feeds, groups, steps_ = random_history(chance), random_groups(chance), random_steps(chance)
    kinds = Counter[str]()
    with TemporaryDirectory(prefix="feedferry-histories-") as name:
        try:
            spans, steps, work = prepared(Path(name), feeds, groups, steps_)
        except StoppedError:
            return kinds
        read = SpanInputs(spans, ReadOptions()).records
        records = [item for item in singly(read()) if isinstance(item, Record)]
        applied = steps.make(work)
        for record in chance.sample(records * 3, len(records) * 3):
            results: list[StepResult] = applied.apply(record)
            assert results == steps.make(work).apply(record), (seed, record, steps_)
            kinds.update(getattr(item, "code", "record") for item in results)
    return kinds


@pytest.mark.slow
@pytest.mark.parametrize("kept", [7, 100_000])
def test_what_a_step_has_decided_is_what_it_would_decide_again(
    kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("feedferry.transforms.steps.acl_step._KEPT_PRINCIPALS", kept)
    kinds = sum((check_decisions(seed) for seed in range(100)), Counter[str]())
    assert kinds["record"] > 800
    assert min(kinds["acl-chain-broken"], kinds["acl-inexact"], kinds["acl-group-unknown"]) > 20
