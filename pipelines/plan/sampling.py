"""A plan that converts a sample of the parts of an input, and estimates the whole from it."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby

from msgspec.structs import replace

from feedferry.pipelines.options.value_parsers import SampleSize
from feedferry.schemas.account import COUNTERS, Account, LossCount, NoticeCount, merge
from feedferry.schemas.span import Span
from feedferry.transforms.conversion.conversion_settings import Settings
from feedferry.transforms.conversion.convert import convert
from feedferry.transforms.sources import source_of
from feedferry.transforms.storage.run_folders.attempts import DryAttempt

PART_BYTES = 1 << 20
"""The size of the parts that a sample is taken from."""

MIN_PARTS = 8
"""A sample has at least this many parts, or all, so that it is spread over the input."""


def convert_sample(
    parts: Sequence[Span], settings: Settings, size: SampleSize
) -> tuple[Account, int]:
    """Return the estimated account of all parts, and the number of parts that were converted.

    Parts are only comparable within one kind of source, so that each kind has its own sample.
    """
    accounts: list[Account] = []
    converted = 0
    for source, grouped in groupby(parts, key=source_of):
        group = list(grouped)
        amounts = map(source.size, group)
        weights = [amount.documents or amount.bytes or 0 for amount in amounts]
        sample = _convert_until_enough(group, weights, settings, size)
        converted += len(sample)
        weight = sum(weights[number] for number in sample)
        share = weight / sum(weights) if weight else len(sample) / len(group)
        accounts.append(scaled(merge(sample.values()), 1 / share))
    return merge(accounts), converted


def scaled(account: Account, factor: float) -> Account:
    """Return an account with all counts multiplied; what was read still balances."""
    counts = {
        name: {key: round(count * factor) for key, count in getattr(account, name).items()}
        for name in COUNTERS
    }
    counts["read"] = {
        action: sum(counts[name].get(action, 0) for name in ("written", "rejected", "filtered"))
        - counts["expanded"].get(action, 0)
        for action in account.read
    }
    return replace(
        account,
        **counts,
        losses={
            field: LossCount(round(loss.count * factor), loss.samples)
            for field, loss in account.losses.items()
        },
        notices={
            code: NoticeCount(round(notice.count * factor), notice.first)
            for code, notice in account.notices.items()
        },
        chunks=[replace(chunk, bytes=round(chunk.bytes * factor)) for chunk in account.chunks],
        bytes_read=round(account.bytes_read * factor),
    )


def estimate_chunks(account: Account, settings: Settings, *, spans: int) -> int:
    """Return the number of chunks of an estimated account whose run has this number of spans."""
    if not account.chunks:
        return 0
    format_ = settings.target_format
    records = sum(account.written.values())
    most = 1 if format_.has_one_record else settings.max_chunk_records or records
    size = sum(chunk.bytes for chunk in account.chunks)
    chunks = max(1, -(-size // spans // settings.max_chunk_bytes), -(-records // spans // most))
    return spans * chunks


def count_spans(parts: Sequence[Span], *, span_bytes: int) -> int:
    """Return the number of spans of a run whose input was cut into these parts instead."""
    counts = Counter(part.source_ordinal for part in parts)
    return sum(-(-count * PART_BYTES // span_bytes) for count in counts.values())


def _convert_until_enough(
    parts: Sequence[Span], weights: Sequence[int], settings: Settings, size: SampleSize
) -> dict[int, Account]:
    """Return the accounts of some parts, by the numbers of the parts."""
    accounts: dict[int, Account] = {}
    weight = records = 0
    for number in _spread(len(parts)):
        accounts[number] = account = convert(parts[number], settings, by=DryAttempt)
        weight += weights[number]
        records += sum(account.read.values())
        if len(accounts) >= MIN_PARTS and size.is_reached(records, weight / (sum(weights) or 1)):
            break
    return accounts


def _spread(count: int) -> Iterator[int]:
    """Yield the numbers below `count` so that any first few of them are spread evenly.

    >>> list(_spread(6))
    [0, 4, 2, 1, 5, 3]
    """
    bits = max(count - 1, 1).bit_length()
    for number in range(1 << bits):
        if (reversed_bits := int(f"{number:0{bits}b}"[::-1], 2)) < count:
            yield reversed_bits
