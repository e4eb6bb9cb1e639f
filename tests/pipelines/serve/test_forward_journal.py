"""The journal of a gateway: what needs nothing more, after any end."""

from contextlib import closing
from pathlib import Path

import pytest

from pipelines.serve.forward_journal import FILE_NAME, DeliveryOutcome, ForwardJournal, ForwardState
from schemas.errors import FatalError
from support.disks import RecordingDisk


def settled(
    ordinal: int, *, up_to: int = 0, state: ForwardState = ForwardState.FORWARDED
) -> DeliveryOutcome:
    return DeliveryOutcome(ordinal=ordinal, state=state, settled=up_to)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "forward" / FILE_NAME


def written(path: Path, *lines: DeliveryOutcome) -> None:
    journal = ForwardJournal(path.parent.parent)
    for line in lines:
        journal.append(line)
    journal.close()


def known(path: Path, *ordinals: int) -> list[bool]:
    journal = ForwardJournal(path.parent.parent)
    journal.close()
    return [journal.is_settled(ordinal) for ordinal in ordinals]


def test_all_up_to_an_ordinal_may_be_settled_at_once(path: Path) -> None:
    written(path, settled(3, up_to=0), settled(1, up_to=3))
    assert known(path, 1, 2, 3, 4) == [True, True, True, False]


def test_line_has_no_default_values(path: Path) -> None:
    written(path, DeliveryOutcome(ordinal=7, state=ForwardState.FORWARDED, settled=7, accepted=2))
    assert path.read_text() == '{"ordinal":7,"state":"forwarded","settled":7,"accepted":2}\n'


def test_incomplete_line_is_overwritten(path: Path) -> None:
    written(path, settled(1, up_to=1))
    with path.open("ab") as stream:
        stream.write(b'{"ordinal":2,"st')
    written(path, settled(2, up_to=2))
    assert path.read_text() == (
        '{"ordinal":1,"state":"forwarded","settled":1}\n'
        '{"ordinal":2,"state":"forwarded","settled":2}\n'
    )


def test_damaged_line_is_reported(path: Path) -> None:
    written(path, settled(1, up_to=1))
    with path.open("ab") as stream:
        stream.write(b"nothing\n")
    with pytest.raises(FatalError) as caught:
        ForwardJournal(path.parent.parent)
    assert str(caught.value) == (
        f"{path}:2: JSON is malformed: invalid character (byte 4); expected the outcome of a"
        " delivery; remove the line"
    )


@pytest.mark.slow
def test_gap_between_many_settled_deliveries_stays_open(path: Path) -> None:
    journal = ForwardJournal(path.parent.parent)
    for ordinal in range(2, 1200):
        journal.append(settled(ordinal, up_to=0))
    journal.close()
    assert known(path, 1, 2, 1199, 1200) == [False, True, True, False]


def test_journal_that_cannot_be_opened_is_reported(path: Path) -> None:
    path.mkdir(parents=True)
    with pytest.raises(FatalError) as caught:
        ForwardJournal(path.parent.parent)
    assert str(caught.value) == (
        f"{path}: Is a directory; expected a place for the outcomes of deliveries"
    )


def test_a_line_is_on_the_disk_when_it_was_noted(tmp_path: Path) -> None:
    disk = RecordingDisk(tmp_path)
    journal = ForwardJournal(tmp_path, disk=disk)
    assert disk.done == ["sync forward/forwarded.jsonl", "sync folder forward", "sync folder ."]
    disk.done.clear()
    journal.append(DeliveryOutcome(ordinal=1, state=ForwardState.FORWARDED, settled=1))
    journal.close()
    assert disk.done == ["write forward/forwarded.jsonl", "sync forward/forwarded.jsonl"]


@pytest.mark.parametrize("operation", [1, 2])
def test_a_delivery_is_not_settled_while_its_line_is_not_on_the_disk(
    tmp_path: Path, operation: int
) -> None:
    disk = RecordingDisk(tmp_path)
    journal = ForwardJournal(tmp_path, disk=disk)
    disk.fail_at(operation)
    with pytest.raises(OSError, match="Input/output error"):
        journal.append(DeliveryOutcome(ordinal=1, state=ForwardState.FORWARDED, settled=1))
    assert not journal.is_settled(1)
    journal.close()
    with closing(ForwardJournal(tmp_path)) as again:
        assert not again.is_settled(1)
