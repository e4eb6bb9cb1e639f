"""What has to hold of readers with a fast path: both routes give the same."""

from collections.abc import Iterator
from random import Random

from msgspec.structs import replace

from feedferry.schemas.reject import Reject
from feedferry.testing.format_kit import FormatKit
from feedferry.testing.reader_properties import Reading, Violation, difference, read_whole
from feedferry.transforms.formats import FORMATS, ReadOptions, ReadResult
from feedferry.transforms.formats.fast_path.columns.record_batch import RecordBatch
from feedferry.transforms.formats.fast_path.elements.element_block import ElementBlock
from feedferry.transforms.formats.fast_path.elements.singly import singly
from feedferry.transforms.rules.adapt import Target
from support.batches import SIZES, by_parser, conversion

_TARGETS = tuple(
    format_.name for format_ in FORMATS.ours if format_.holds.actions and format_.encoder
)


def check_parser(
    kit: FormatKit, data: bytes, options: ReadOptions, whole: Reading, _random: Random
) -> None:
    """Elements that need no parser are read as by the parser; of two faults, either is told."""
    with by_parser():
        parsed = read_whole(kit, data, options)
    if [*map(_place, parsed.items)] != [*map(_place, whole.items)] or parsed.error != whole.error:
        raise Violation("the parser differs", difference(parsed, whole))


def _place(result: ReadResult) -> object:
    if isinstance(result, Reject):
        return result.offset, result.line, result.data
    return result


def check_batches(
    kit: FormatKit, data: bytes, options: ReadOptions, whole: Reading, random: Random
) -> None:
    """Batches have the records of single results, and are converted to the same bytes."""
    size, target = random.choice(SIZES), Target(format=random.choice(_TARGETS))
    batched = read_whole(kit, data, replace(options, batch_records=size))
    if not any(isinstance(result, RecordBatch | ElementBlock) for result in batched.items):
        return
    singles: Iterator[ReadResult] = singly(batched.items)
    if (restored := Reading([*singles], batched.error)) != whole:
        raise Violation("batches differ", f"{size}: {difference(whole, restored)}")
    expected, found = (
        conversion(data, target, batch_records=records, format_=kit.name, reading=options)
        for records in (0, size)
    )
    if found != expected:
        raise Violation("batches are converted to other bytes", f"{size}, {target.format}")


PROPERTIES = check_parser, check_batches
