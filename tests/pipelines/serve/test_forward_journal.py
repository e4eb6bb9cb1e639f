"""The journal of a gateway: what needs nothing more, after any end."""

from contextlib import closing
from pathlib import Path

import pytest

from feedferry.pipelines.serve.forward_journal import (
    DeliveryOutcome,
    ForwardJournal,
    ForwardState,
)
from feedferry.schemas.errors import FatalError
from support.disks import RecordingDisk


def settled(ordinal: int, *, state: ForwardState = ForwardState.FORWARDED) -> DeliveryOutcome:
    return DeliveryOutcome(ordinal=ordinal, state=state)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "forward" / "forwarded.jsonl"


def written(spool: Path, *lines: DeliveryOutcome) -> None:
    with closing(ForwardJournal(spool)) as journal:
        for line in lines:
            journal.append(line)


AGAIN = (settled(1), settled(2), settled(1, state=ForwardState.RETRIED))


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ((settled(2), settled(1), settled(3)), [True, True, True, False]),
        ((settled(2), settled(3)), [False, True, True, False]),
        (AGAIN, [False, True, False, False]),
        ((*AGAIN, settled(1)), [True, True, False, False]),
    ],
    ids=["all-before", "gap", "retried", "forwarded-again"],
)
def test_a_delivery_is_settled_by_its_last_line(
    tmp_path: Path, lines: tuple[DeliveryOutcome, ...], expected: list[bool]
) -> None:
    written(tmp_path, *lines)
    with closing(ForwardJournal(tmp_path)) as journal:
        assert [journal.is_settled(ordinal) for ordinal in (1, 2, 3, 4)] == expected


def test_line_has_no_default_values(tmp_path: Path, path: Path) -> None:
    written(tmp_path, DeliveryOutcome(7, ForwardState.FORWARDED, accepted=2))
    assert path.read_text() == '{"ordinal":7,"state":"forwarded","accepted":2}\n'


def test_damaged_line_is_reported(tmp_path: Path, path: Path) -> None:
    written(tmp_path, settled(1))
    with path.open("ab") as stream:
        stream.write(b"nothing\n")
    with pytest.raises(FatalError) as caught:
        ForwardJournal(tmp_path)
    assert str(caught.value) == (
        f"{path}:2: JSON is malformed: invalid character (byte 4); expected the outcome of a"
        " delivery: restore the file from a copy, or remove the line"
    )


@pytest.mark.parametrize("operation", [1, 2])
def test_a_delivery_is_not_settled_while_its_line_is_not_on_the_disk(
    tmp_path: Path, operation: int
) -> None:
    disk = RecordingDisk(tmp_path)
    journal = ForwardJournal(tmp_path, disk=disk)
    disk.fail_at(operation)
    with pytest.raises(OSError, match="Input/output error"):
        journal.append(DeliveryOutcome(ordinal=1, state=ForwardState.FORWARDED))
    assert not journal.is_settled(1)
    journal.close()
    with closing(ForwardJournal(tmp_path)) as again:
        assert not again.is_settled(1)
