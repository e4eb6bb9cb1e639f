"""Random lists of steps: the account balances, and no protected document becomes public."""

import random
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from feedferry.pipelines.convert.inputs.step_inputs import SpanInputs
from feedferry.pipelines.convert.publication.step_lists import StepLists
from feedferry.schemas.account import Account, check_balance
from feedferry.schemas.acl import Access, Acl, Inheritance, Principal, Scope
from feedferry.schemas.record import Action, Arrival, Content, Meta, Provenance, Record
from feedferry.schemas.span import Span
from feedferry.testing.strategies import records
from feedferry.transforms.conversion.conversion_settings import Settings
from feedferry.transforms.conversion.convert import convert
from feedferry.transforms.formats import AVRO, ReadOptions, WriteOptions, write_all
from feedferry.transforms.formats.fast_path.elements.singly import singly
from feedferry.transforms.rules.adapt import Target
from feedferry.transforms.rules.normalize import normalize
from feedferry.transforms.sources import SpanRequest, read_span
from feedferry.transforms.steps import read_steps
from feedferry.transforms.steps.merge_step import is_partial
from support.web_site import Answer, Request, WebSite, web_site

LISTS, RECORDS = 370, 138
DRAWN = 6
"""The records of each list that hypothesis draws; the others have their parts in a random mix."""

OLD = "http://old.example.com/"
MERGE, ACL = "merge: base.avro", "acl: {inexact: deny}"
FETCH = "fetch: {networks: 127.0.0.0/8, hosts: 127.0.0.1, robots: ignore, attempts: 1, %s}"
ENTRIES = (
    f"urls: {{rewrite: [['{OLD}', 'https://new.example.com/']]}}",
    "urls: {rewrite: [['re:(.*)/[0-9]+', '\\1/one']]}",
    "principals: {rewrite: [['*', 'x-*']], unmapped: deny}",
    "principals: {rewrite: [['a*', '*']], unmapped: deny}",
    *("principals: {rewrite: [['a*', '*']], unmapped: reject}", "principals: {table: people.csv}"),
    *("principals: {case: lower}", "drop: {metadata: {a: '*'}}", "drop: {mimetype: 'image/*'}"),
    *("keep: {acl: present}", "metadata: {rename: {a: b}, drop: c, set: {d: e}}"),
    *("metadata: {drop: '*'}", "metadata: {drop: 'google:*', move: {'metadata:a': title}}"),
    *("content: {drop: 'text/*'}", "content: {utf8: windows-1252}", "content: {max_bytes: 5B}"),
    *("python: {function: 'own_rules:titled', from_job_folder: true}", ACL, MERGE),
    FETCH % "gone: delete",
    FETCH % "conditional: true",
)
_NAMES = ("ann", "bob", "ACME\\cid", "staff")
_TYPES = (None, *Inheritance)


def answer(request: Request) -> Answer:
    """Answer by the number of the document: most are there."""
    kinds = {0: Answer(status=404), 1: Answer(status=500), 2: Answer(b"\xfc", status=200)}
    status = 304 if request.since else 200
    return kinds.get(len(request.path) * 7 % 11, Answer(b"<p>text</p>", status=status))


def random_acl(chance: random.Random, urls: Sequence[str]) -> Acl | None:
    if chance.random() < 0.2:
        return None
    principals = tuple(
        Principal(name=name, scope=chance.choice([*Scope]), access=chance.choice([*Access]))
        for name in chance.sample(_NAMES, chance.randrange(4))
    )
    parent = chance.choice(urls) if chance.random() < 0.3 else None
    return Acl(principals=principals, inheritance=chance.choice(_TYPES), inherit_from=parent)


def mixed(drawn: Sequence[Record], count: int, chance: random.Random, site: str) -> list[Record]:
    """Return the drawn records, and others with the fields of several of them."""
    urls = [f"{OLD}{number}" for number in range(count)]
    of_url = {normalize(record).url: record for record in drawn}
    made = [*of_url.values()]
    for number in range(len(made), count):
        first, second = chance.choice(drawn), chance.choice(drawn)
        is_url = chance.random() < 0.1
        acl = random_acl(chance, urls)
        fields = {
            "url": f"{site}/{number * 'x'}" if is_url else urls[number],
            "action": chance.choice((Action.ADD, Action.ADD, Action.UPDATE, Action.DELETE)),
            "arrival": Arrival.CRAWLED if is_url else second.arrival,
            "content": None if is_url or chance.random() < 0.3 else second.content,
            "body": None if is_url else first.body,
            "mimetype": chance.choice(("text/html", "image/png", first.mimetype)),
            "metadata": second.metadata,
            "acl": acl,
        }
        if acl is None and chance.random() < 0.5:
            fields["metadata"] = (Meta("google:aclusers", chance.choice(_NAMES)), Meta("a", "b"))
        made.append(replace(first, **fields))
    return [
        replace(record, provenance=Provenance(source="f", line=number))
        for number, record in enumerate(made, start=1)
    ]


def base_of(given_records: Sequence[Record]) -> list[Record]:
    """Return a protected document for every other record."""
    acl = Acl(principals=(Principal(name="ann", scope=Scope.USER, access=Access.PERMIT),))
    return [
        Record(url=record.url, action=Action.ADD, content=Content(b"base"), acl=acl)
        for record in given_records[::2]
    ]


def write(path: Path, stated: Sequence[Record]) -> Span:
    with path.open("wb") as stream:
        write_all(AVRO.make_encoder(WriteOptions()), stated, stream)
    return Span(source=str(path), path=str(path), format=AVRO.name)


def converted(
    folder: Path, given_records: Sequence[Record], entries: Sequence[str]
) -> tuple[Account, list[Record]]:
    """Convert records by the steps to an archive; return the account, and what it has."""
    steps_path, work = folder / "steps.yaml", folder / "work"
    steps_path.write_text("transform:\n" + "".join(f"- {entry}\n" for entry in entries))
    (folder / "people.csv").write_text("ann,anna\nbob,robert\n")
    (folder / "own_rules.py").write_text(
        "from msgspec.structs import replace\n"
        "def titled(record):\n    return replace(record, title='T')\n"
    )
    work.mkdir()
    write(folder / "base.avro", base_of(given_records))
    span = write(folder / "input.avro", given_records)
    steps = read_steps(steps_path)
    steps.prepare(SpanInputs((span,), ReadOptions()), work)
    stated = Settings(
        folder=str(work),
        target=Target(format=AVRO.name),
        reading=ReadOptions(),
        writing=WriteOptions(),
        max_chunk_bytes=1 << 30,
        steps=steps,
    )
    account = convert(span, stated)
    assert account.stopped is None
    StepLists(account, stated).write()
    written = []
    for chunk in account.chunks:
        request: SpanRequest[None] = SpanRequest(span=replace(span, path=str(work / chunk.path)))
        with closing(read_span(request)) as results:
            written += [item for item in singly(results) if isinstance(item, Record)]
    return account, written


def check_protection(stated: Sequence[Acl | None], after: Record, *, is_resolved: bool) -> None:
    """Check a record against the ACLs that its document may have had before the steps."""
    if after.action is Action.DELETE or None in stated:
        return
    assert after.acl is not None
    resolved = after.acl
    assert is_resolved or any(acl and keeps(acl, resolved) for acl in stated)


def keeps(before: Acl, after: Acl) -> bool:
    return (
        count(after, Access.DENY) == count(before, Access.DENY)
        and count(after, Access.PERMIT) <= count(before, Access.PERMIT)
        and (after.inherit_from is None) is (before.inherit_from is None)
    )


def count(acl: Acl, access: Access) -> int:
    return sum(principal.access is access for principal in acl.principals)


@pytest.fixture(scope="module")
def site() -> Iterator[WebSite]:
    with web_site(answer) as served:
        yield served


@pytest.mark.slow
def test_no_list_of_steps_loses_a_record_or_makes_a_protected_document_public(
    site: WebSite,
) -> None:
    total = 0

    @settings(
        max_examples=LISTS,
        deadline=None,
        suppress_health_check=[*HealthCheck],
        phases=[Phase.generate],
    )
    @given(
        st.lists(st.sampled_from(ENTRIES), min_size=1, max_size=5),
        st.lists(records(), min_size=DRAWN, max_size=DRAWN),
        st.integers(0, 1 << 32),
    )
    def convert_a_list(entries: list[str], drawn: list[Record], seed: int) -> None:
        nonlocal total
        entries.sort(key=MERGE.__ne__)  # it is first, so that URLs are those of the base
        given_records = mixed(drawn, RECORDS, random.Random(seed), site.url)
        with TemporaryDirectory(prefix="feedferry-steps-") as name:
            account, written = converted(Path(name), given_records, entries)
        check_balance(account)
        assert sum(account.read.values()) == RECORDS
        by_url: dict[str, list[Acl | None]] = {}
        for record in (*given_records, *base_of(given_records)):
            plain = normalize(record)
            by_url.setdefault(plain.url, []).append(plain.acl)
        for record in written:
            before = normalize(given_records[record.provenance.line - 1])
            is_merged = MERGE in entries and is_partial(before)
            stated = by_url[before.url] if is_merged else [before.acl]
            if is_merged and len(stated) > 1:
                stated = [acl for acl in stated if acl is not None]  # that of the base is kept
            check_protection(stated, record, is_resolved=ACL in entries)
        total += RECORDS

    convert_a_list()
    assert total >= LISTS * RECORDS == 51_060
    assert site.requests
