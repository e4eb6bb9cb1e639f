"""The account of a run: how it is added up, and when it does not balance."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from feedferry.schemas.account import (
    COUNTERS,
    REJECT_SAMPLES,
    SAMPLES,
    Account,
    Chunk,
    LossCount,
    NoticeCount,
    RejectSample,
    add_loss,
    add_notice,
    add_reject_sample,
    check_balance,
    merge,
)
from feedferry.schemas.errors import BalanceError
from feedferry.schemas.notice import Loss, Notice
from feedferry.schemas.reject import Reject

ACTIONS = ("ADD", "DELETE", "UPDATE")

_tallies = st.dictionaries(st.sampled_from(ACTIONS), st.integers(0, 9), max_size=2)
_codes = st.dictionaries(st.sampled_from(("malformed", "bad-acl")), st.integers(1, 9))
_lost = st.builds(
    Loss,
    field=st.just("acl"),
    url=st.sampled_from("abcdefgh"),
    detail=st.sampled_from(("principal", "namespace")),
)
_samples = st.lists(_lost, max_size=SAMPLES, unique=True).map(tuple)
_losses = st.dictionaries(
    st.sampled_from(("acl", "modified")), st.builds(LossCount, st.integers(5, 9), _samples)
)
_rejects = st.builds(
    Reject,
    code=st.sampled_from(("malformed", "bad-acl")),
    reason=st.just("x"),
    stage=st.just("read"),
    source=st.sampled_from("ab"),
    offset=st.integers(0, 99),
)
_stops = st.sampled_from(((None, 0), ("3 rejects", 3), ("a lost acl", 3), ("a full disk", 4)))


def chunk(path: str) -> Chunk:
    return Chunk(
        path=path,
        bytes=1,
        sha256="",
        records={"ADD": 1},
        first_url="a",
        last_url="b",
        source="feed.xml",
        span=0,
    )


@st.composite
def accounts(draw: st.DrawFn, *, most: int = 4) -> list[Account]:
    """Accounts of spans, whose chunks have names of their own."""
    paths = draw(st.lists(st.sampled_from("abcdefgh"), unique=True, min_size=most, max_size=8))
    return [draw(_accounts(paths[number::most])) for number in range(draw(st.integers(0, most)))]


@st.composite
def _accounts(draw: st.DrawFn, paths: list[str]) -> Account:
    stopped, exit_code = draw(_stops)
    samples: dict[str, tuple[RejectSample, ...]] = {}
    for reject, is_accepted in draw(st.lists(st.tuples(_rejects, st.booleans()), max_size=8)):
        add_reject_sample(samples, reject, is_accepted=is_accepted)
    return Account(
        read=draw(_tallies),
        expanded=draw(_tallies),
        written=draw(_tallies),
        rejected=draw(_tallies),
        filtered=draw(_tallies),
        reject_codes=draw(_codes),
        filter_codes=draw(_codes),
        reject_samples=samples,
        losses=draw(_losses),
        chunks=[chunk(path) for path in paths],
        spans=1,
        bytes_read=draw(st.integers(0, 1 << 40)),
        bytes_stored=draw(st.integers(0, 1 << 40)),
        stopped=stopped,
        exit_code=exit_code,
    )


def loss(url: str, field: str = "acl") -> Loss:
    return Loss(field=field, url=url, detail="principals")


def noted(code: str, *, offset: int = 0) -> Notice:
    return Notice(code=code, detail="x", source="a", offset=offset)


@settings(max_examples=100)
@given(
    accounts().flatmap(lambda drawn: st.tuples(st.just(drawn), st.permutations(drawn))),
    st.integers(0, 4),
)
def test_accounts_are_merged_in_any_order_and_in_parts(
    case: tuple[list[Account], list[Account]], at: int
) -> None:
    drawn, shuffled = case
    before = msgspec.json.encode(drawn)
    merged = merge(drawn)
    assert merge(shuffled) == merged
    assert merge([merge(drawn[:at]), merge(drawn[at:])]) == merged
    assert merge([merged]) == merged
    assert msgspec.json.encode(drawn) == before


def test_no_accounts_have_an_empty_sum() -> None:
    assert merge([]) == Account()


@pytest.mark.parametrize("name", COUNTERS)
def test_counts_of_every_kind_are_added(name: str) -> None:
    account = msgspec.convert({name: {"b": 1, "a": 2}}, Account)
    assert list(getattr(merge([account, account]), name).items()) == [("a", 4), ("b", 2)]


def test_new_rejects_are_samples_before_accepted_ones_then_in_the_order_of_their_places() -> None:
    samples: dict[str, tuple[RejectSample, ...]] = {}
    for source, offset, is_accepted in (
        *(("b", 1, False), ("a", 9, True), ("a", 30, False)),
        *(("a", 4, False), ("a", 200, False)),
    ):
        reject = Reject(code="torn", reason="x", stage="read", source=source, offset=offset)
        add_reject_sample(samples, reject, is_accepted=is_accepted)

    assert [(sample.source, sample.offset) for sample in samples["torn"]] == [
        *(("a", 4), ("a", 30), ("a", 200))
    ]
    assert len(samples["torn"]) == REJECT_SAMPLES
    assert samples["torn"][0].message == "a (byte 4): x"


def test_accounts_are_added_up() -> None:
    late = Account(
        spans=1,
        bytes_read=10,
        bytes_stored=1,
        chunks=[chunk("c"), chunk("a")],
        losses={"acl": LossCount(2, (loss("f"), loss("b"), loss("d")))},
        notices={"date": NoticeCount(2, noted("date", offset=9))},
        stopped="a lost acl",
        exit_code=3,
    )
    early = Account(
        spans=1,
        bytes_read=20,
        bytes_stored=2,
        chunks=[chunk("b")],
        losses={"acl": LossCount(5, (loss("e"), loss("a"), loss("c"), loss("b")))},
        notices={"date": NoticeCount(3, noted("date", offset=4))},
        stopped="a full disk",
        exit_code=4,
    )
    assert merge([late, early, Account()]) == Account(
        spans=2,
        bytes_read=30,
        bytes_stored=3,
        chunks=[chunk("a"), chunk("b"), chunk("c")],
        losses={"acl": LossCount(7, (loss("a"), loss("b"), loss("c"), loss("d"), loss("e")))},
        notices={"date": NoticeCount(5, noted("date", offset=4))},
        stopped="a full disk",
        exit_code=4,
    )


def test_losses_are_counted_by_field_and_the_first_few_are_samples() -> None:
    losses: dict[str, LossCount] = {"acl": LossCount(4, tuple(map(loss, "abcd")))}
    for item in (loss("e"), loss("f"), loss("b", "modified")):
        add_loss(losses, item)
    assert losses == {
        "acl": LossCount(6, tuple(map(loss, "abcde"))),
        "modified": LossCount(1, (loss("b", "modified"),)),
    }


def test_notices_are_counted_by_code_and_the_first_is_kept() -> None:
    notices: dict[str, NoticeCount] = {}
    for notice in (noted("date", offset=1), noted("date", offset=2), noted("flag")):
        add_notice(notices, notice)
    assert notices == {
        "date": NoticeCount(2, noted("date", offset=1)),
        "flag": NoticeCount(1, noted("flag")),
    }


@pytest.mark.parametrize(
    "account",
    [
        Account(),
        Account(read={"ADD": 1}, written={"ADD": 1}),
        Account(read={"ADD": 1}, written={"UPDATE": 1}),
        Account(read={"ADD": 3}, written={"ADD": 1}, rejected={"ADD": 1}, filtered={"ADD": 1}),
        Account(read={"DELETE_PATTERN": 1}, expanded={"DELETE": 2}, written={"DELETE": 3}),
        Account(read={"ADD": 0}),
    ],
)
def test_an_account_balances(account: Account) -> None:
    check_balance(account)


@pytest.mark.parametrize(
    ("account", "read", "accounted"),
    [
        (Account(read={"ADD": 2, "DELETE": 1}, written={"ADD": 1}, rejected={"ADD": 1}), 3, 2),
        (Account(written={"ADD": 1}), 0, 1),
        (Account(read={"ADD": 1}, expanded={"ADD": 1}, filtered={"ADD": 3}), 2, 3),
    ],
)
def test_an_account_that_does_not_balance_is_a_defect(
    account: Account, read: int, accounted: int
) -> None:
    with pytest.raises(BalanceError) as caught:
        check_balance(account)
    assert str(caught.value) == (
        f"{read} records read, but {accounted} written, rejected and filtered: "
        "a defect of feedferry; nothing of this run is published"
    )


def test_a_chunk_is_a_line_of_the_manifest() -> None:
    assert msgspec.json.encode(chunk("chunks/1.xml")).decode() == (
        '{"ordinal":0,"path":"chunks/1.xml","bytes":1,"sha256":"","records":{"ADD":1},'
        '"first_url":"a","last_url":"b","source":"feed.xml","span":0,"format":null,"datasource":null,'
        '"feedtype":null,"asked":null,"origin":null,"members":0,"note":null,"state":"ready","attempts":0,"reply":null}'
    )
