"""The size of the spans that an input is cut into, by the sizes of its files only.

A chunk is of one span, so this also decides how many requests a push makes.
"""

from collections.abc import Iterable

AUTO = 0
"""The size of spans if none is stated: that of `auto_span_bytes`."""

MIN_SPAN_BYTES = 32 << 20
MAX_SPAN_BYTES = 900 << 20
MAX_SPANS = 20_000
_STEP = 1 << 20


def auto_span_bytes(sizes: Iterable[int]) -> int:
    """Return the size of spans for files of these sizes, 0 for an unknown one: whole MiB.

    It is the least of 32 MiB to 900 MiB with which there are at most 20,000 spans, or as many as
    there are files. Larger files never make it less. The sizes are those in storage, also of
    compressed files, which are one span each.

    >>> auto_span_bytes([10**9]) >> 20, auto_span_bytes([10**13]) >> 20
    (32, 477)
    """
    known = list(sizes)
    most = max(MAX_SPANS, len(known))
    low, high = MIN_SPAN_BYTES // _STEP, MAX_SPAN_BYTES // _STEP
    if _count(known, low * _STEP) <= most:
        return low * _STEP
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if _count(known, middle * _STEP) <= most else (middle + 1, high)
    return low * _STEP


def _count(sizes: list[int], span_bytes: int) -> int:
    return sum(-(-size // span_bytes) or 1 for size in sizes)
