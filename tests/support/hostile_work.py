"""Work for worker processes that never ends, raises, or ends its process.

Only what belongs to the datasource `bad` is treated so; the rest is done as it should be. While a
file `fixed` is in the spool, all is done as it should be.
"""

import os
import re
import signal
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from feedferry.pipelines.serve.delivery_runs import convert_spans
from feedferry.pipelines.serve.rehearsal.index import digest_delivery
from feedferry.schemas.account import Account
from feedferry.schemas.delivery import Delivery
from feedferry.schemas.span import Span
from feedferry.transforms.conversion.conversion_settings import Settings
from feedferry.transforms.formats.base import ReadOptions

SLOW = re.compile(r"(a+)+$")


def loop() -> None:
    while True:
        pass


def sleep() -> None:
    time.sleep(3600)


def match_slowly() -> None:
    """Take for ever in C, where no other thread of the process runs."""
    SLOW.match("a" * 60 + "b")


def fail() -> None:
    raise ZeroDivisionError("division by zero")


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def crash() -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def leave() -> None:
    os._exit(7)


def add(first: int, second: int) -> int:
    return first + second


def _digest(
    action: Callable[[], None], index: Path, delivery: Delivery, spool: Path, reading: ReadOptions
) -> None:
    if delivery.datasource == "bad" and not (spool / "fixed").exists():
        action()
    digest_delivery(index, delivery, spool, reading)


def _convert(
    action: Callable[[], None], spans: list[Span], settings: Settings, span_bytes: int
) -> Account:
    for span in spans:
        is_bad = span.feed is not None and span.feed.datasource == "bad"
        if is_bad and not (Path(span.path).parents[1] / "fixed").exists():
            action()
    return convert_spans(spans, settings, span_bytes)


digest_looping, digest_failing, digest_dying = (partial(_digest, act) for act in (loop, fail, die))
convert_looping, convert_failing, convert_dying = (
    partial(_convert, act) for act in (loop, fail, die)
)
