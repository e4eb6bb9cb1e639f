"""The account of a run: how it is added up, and when it does not balance."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.account import (
    SAMPLES,
    Account,
    Chunk,
    LossCount,
    NoticeCount,
    add_loss,
    add_notice,
    check_balance,
    merge,
)
from schemas.errors import BalanceError
from schemas.notice import Loss, Notice

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
    return Account(
        read=draw(_tallies),
        expanded=draw(_tallies),
        written=draw(_tallies),
        rejected=draw(_tallies),
        filtered=draw(_tallies),
        reject_codes=draw(_codes),
        filter_codes=draw(_codes),
        losses=draw(_losses),
        chunks=[chunk(path) for path in paths],
        spans=1,
        bytes_read=draw(st.integers(0, 1 << 40)),
        stopped=stopped,
        exit_code=exit_code,
    )


def imbalance(account: Account) -> str:
    with pytest.raises(BalanceError) as caught:
        check_balance(account)
    return str(caught.value)


# merge


def test_no_accounts_are_an_empty_one() -> None:
    assert merge([]) == Account()


@settings(max_examples=100)
@given(accounts().flatmap(lambda found: st.tuples(st.just(found), st.permutations(found))))
def test_accounts_may_come_in_any_order(case: tuple[list[Account], list[Account]]) -> None:
    found, shuffled = case
    assert merge(shuffled) == merge(found)


@settings(max_examples=100)
@given(accounts(), st.integers(0, 4))
def test_accounts_may_be_merged_bit_by_bit(found: list[Account], at: int) -> None:
    assert merge([merge(found[:at]), merge(found[at:])]) == merge(found)


@settings(max_examples=50)
@given(accounts())
def test_a_merged_account_is_merged(found: list[Account]) -> None:
    assert merge([merge(found)]) == merge(found)


@settings(max_examples=50)
@given(accounts())
def test_merging_leaves_the_accounts_as_they_were(found: list[Account]) -> None:
    before = msgspec.json.encode(found)
    merge([merge(found), *found])
    assert msgspec.json.encode(found) == before


def test_counts_are_added_per_action() -> None:
    one = Account(read={"DELETE": 1, "ADD": 2}, written={"ADD": 2}, spans=1, bytes_read=10)
    other = Account(read={"ADD": 3}, rejected={"ADD": 3}, spans=1, bytes_read=20)
    assert merge([one, other]) == Account(
        read={"ADD": 5, "DELETE": 1},
        written={"ADD": 2},
        rejected={"ADD": 3},
        spans=2,
        bytes_read=30,
    )


@pytest.mark.parametrize(
    "name",
    ["read", "expanded", "written", "rejected", "filtered", "reject_codes", "filter_codes"],
)
def test_counts_of_every_kind_are_added(name: str) -> None:
    account = msgspec.convert({name: {"b": 1, "a": 2}}, Account)
    assert list(getattr(merge([account, account]), name).items()) == [("a", 4), ("b", 2)]


def test_chunks_are_in_the_order_of_their_paths() -> None:
    one, other = Account(chunks=[chunk("c"), chunk("a")]), Account(chunks=[chunk("b")])
    assert [found.path for found in merge([one, other]).chunks] == ["a", "b", "c"]


def test_the_gravest_stop_is_the_reason() -> None:
    stops = [
        Account(stopped="a lost acl", exit_code=3),
        Account(stopped="a full disk", exit_code=4),
        Account(),
    ]
    found = merge(stops)
    assert (found.stopped, found.exit_code) == ("a full disk", 4)


def test_of_stops_that_are_as_grave_the_reason_is_the_same_in_any_order() -> None:
    one, other = Account(stopped="a", exit_code=3), Account(stopped="b", exit_code=3)
    assert merge([one, other]).stopped == merge([other, one]).stopped


def test_the_first_samples_of_a_loss_by_url_are_kept() -> None:
    one = Account(losses={"acl": LossCount(2, (loss("f"), loss("b"), loss("d")))})
    other = Account(losses={"acl": LossCount(5, (loss("e"), loss("a"), loss("c"), loss("b")))})
    assert merge([one, other]).losses == {
        "acl": LossCount(7, (loss("a"), loss("b"), loss("c"), loss("d"), loss("e")))
    }


# add_loss


def loss(url: str, field: str = "acl") -> Loss:
    return Loss(field=field, url=url, detail="principals")


def test_a_loss_is_counted_by_its_field() -> None:
    losses: dict[str, LossCount] = {}
    add_loss(losses, loss("a"))
    add_loss(losses, loss("b", "modified"))
    assert losses == {
        "acl": LossCount(1, (loss("a"),)),
        "modified": LossCount(1, (loss("b", "modified"),)),
    }


def test_the_first_few_losses_of_a_field_are_samples() -> None:
    losses: dict[str, LossCount] = {"acl": LossCount(4, tuple(map(loss, "abcd")))}
    add_loss(losses, loss("e"))
    add_loss(losses, loss("f"))
    assert losses == {"acl": LossCount(6, tuple(map(loss, "abcde")))}


# check_balance


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
def test_an_account_of_which_all_is_known_balances(account: Account) -> None:
    check_balance(account)


@pytest.mark.parametrize(
    ("account", "message"),
    [
        (
            Account(read={"ADD": 2, "DELETE": 1}, written={"ADD": 1}, rejected={"ADD": 1}),
            "3 records read, but 2 written, rejected and filtered: "
            "a defect of feedferry; nothing of this run is published",
        ),
        (
            Account(written={"ADD": 1}),
            "0 records read, but 1 written, rejected and filtered: "
            "a defect of feedferry; nothing of this run is published",
        ),
        (
            Account(read={"ADD": 1}, expanded={"ADD": 1}, filtered={"ADD": 3}),
            "2 records read, but 3 written, rejected and filtered: "
            "a defect of feedferry; nothing of this run is published",
        ),
    ],
)
def test_an_account_that_does_not_balance_is_a_defect(account: Account, message: str) -> None:
    assert imbalance(account) == message


# Chunk


def test_a_chunk_is_a_line_of_the_manifest() -> None:
    assert msgspec.json.encode(chunk("chunks/1.xml")).decode() == (
        '{"ordinal":0,"path":"chunks/1.xml","bytes":1,"sha256":"","records":{"ADD":1},'
        '"first_url":"a","last_url":"b","source":"feed.xml","span":0,"format":null,"datasource":null,'
        '"feedtype":null,"asked":null,"origin":null,"members":0,"note":null,"state":"ready","attempts":0,"reply":null}'
    )


def noted(code: str, *, source: str = "a", offset: int = 0) -> Notice:
    return Notice(code=code, detail="x", source=source, offset=offset)


def test_notices_are_counted_by_code_and_the_first_is_kept() -> None:
    notices: dict[str, NoticeCount] = {}
    add_notice(notices, noted("date", offset=1))
    add_notice(notices, noted("date", offset=2))
    add_notice(notices, noted("flag"))

    assert notices == {
        "date": NoticeCount(2, noted("date", offset=1)),
        "flag": NoticeCount(1, noted("flag")),
    }


def test_notices_of_spans_are_added_up_and_the_first_in_the_input_is_kept() -> None:
    late = Account(notices={"date": NoticeCount(2, noted("date", offset=9))})
    early = Account(notices={"date": NoticeCount(3, noted("date", offset=4))})

    assert merge([late, early]).notices == {"date": NoticeCount(5, noted("date", offset=4))}
