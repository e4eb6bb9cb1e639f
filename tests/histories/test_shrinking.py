"""A history that breaks a promise is made shorter."""

from collections.abc import Sequence

from support.histories.changes import Delete, Fault, Night, Put
from support.histories.histories import MOST_REPLAYS, shrink
from support.histories.source_state import Item


def put(path: str) -> Put:
    return Put(key=("docs", path), item=Item(acl=None))


def changes_of(nights: Sequence[Night]) -> list[object]:
    return [change for night in nights for change in night.changes]


NIGHTS = [
    Night(changes=(put("a"), put("b"))),
    Night(changes=(put("c"),), kills=(7,)),
    Night(changes=(put("d"), Delete(key=("docs", "c")))),
    Night(changes=(put("e"), put("f")), faults=(Fault(at=1, kind="late"),), kills=(3, 9)),
]


def test_only_what_fails_is_left_after_a_load_of_the_state_before() -> None:
    def fails(nights: Sequence[Night]) -> bool:
        changes = changes_of(nights)
        return put("a") in changes and put("f") in changes and 9 in nights[-1].kills

    assert shrink(NIGHTS, fails) == [
        Night(changes=(put("a"),)),
        Night(changes=(put("f"),), kills=(9,)),
    ]


def test_a_history_that_needs_all_its_nights_keeps_them() -> None:
    def fails(nights: Sequence[Night]) -> bool:
        return len(nights) == len(NIGHTS) and Delete(key=("docs", "c")) in changes_of(nights)

    assert [len(night.changes) for night in shrink(NIGHTS, fails)] == [0, 0, 1, 0]


def test_the_number_of_replays_is_limited() -> None:
    replays = 0

    def fails(nights: Sequence[Night]) -> bool:
        nonlocal replays
        replays += 1
        return False

    many = [Night(changes=tuple(put(str(number)) for number in range(200)))] * 3
    assert shrink(many, fails) == many
    assert replays == MOST_REPLAYS
