"""Work for worker processes that never ends, raises, or ends its process.

Only what belongs to the datasource `bad` is treated so; the rest is done as it should be. While a
file `fixed` stands in the spool, all is done as it should be.
"""

import os
import re
import signal
import time
from pathlib import Path

from pipelines.serve.forwarder import convert_spans
from pipelines.serve.rehearsal.index import digest_delivery
from schemas.account import Account
from schemas.delivery import Delivery
from schemas.span import Span
from transforms.convert import Settings
from transforms.formats.base import ReadOptions

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


def is_bad(delivery: Delivery, spool: Path) -> bool:
    return delivery.datasource == "bad" and not (spool / "fixed").exists()


def digest_looping(index: Path, delivery: Delivery, spool: Path, reading: ReadOptions) -> None:
    if is_bad(delivery, spool):
        loop()
    digest_delivery(index, delivery, spool, reading)


def digest_failing(index: Path, delivery: Delivery, spool: Path, reading: ReadOptions) -> None:
    if is_bad(delivery, spool):
        fail()
    digest_delivery(index, delivery, spool, reading)


def digest_dying(index: Path, delivery: Delivery, spool: Path, reading: ReadOptions) -> None:
    if is_bad(delivery, spool):
        die()
    digest_delivery(index, delivery, spool, reading)


def _is_bad_span(span: Span) -> bool:
    is_bad = span.feed is not None and span.feed.datasource == "bad"
    return is_bad and not (Path(span.path).parents[1] / "fixed").exists()


def convert_looping(spans: list[Span], settings: Settings, span_bytes: int) -> Account:
    if any(map(_is_bad_span, spans)):
        loop()
    return convert_spans(spans, settings, span_bytes)


def convert_failing(spans: list[Span], settings: Settings, span_bytes: int) -> Account:
    if any(map(_is_bad_span, spans)):
        fail()
    return convert_spans(spans, settings, span_bytes)


def convert_dying(spans: list[Span], settings: Settings, span_bytes: int) -> Account:
    if any(map(_is_bad_span, spans)):
        die()
    return convert_spans(spans, settings, span_bytes)
