"""Receivers for tests: in this process, on a free port, and the content of their spools."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from feedferry.pipelines.serve.receiver import Receiver
from feedferry.pipelines.serve.settings import ServeSettings
from feedferry.schemas.delivery import JOURNAL, Delivery
from support.served import wait_until
from support.talk import get, say


@contextmanager
def receiving(spool: Path, **changes: object) -> Iterator[Receiver]:
    """Run a receiver; see that nothing is left on its way in when it ends."""
    settings = ServeSettings(spool=str(spool), port=0, min_free_bytes=0)
    with Receiver(msgspec.structs.replace(settings, **changes)) as receiver:
        yield receiver
    assert list((spool / "incoming").iterdir()) == []


def deliveries(spool: Path) -> list[Delivery]:
    """All that was delivered, in the order of arrival."""
    lines = (spool / JOURNAL).read_bytes().splitlines()
    return [msgspec.json.decode(line, type=Delivery) for line in lines]


def kept(spool: Path) -> list[tuple[str, str, bytes]]:
    """What was delivered: its datasource or profile, its feedtype, and its feed."""
    return [
        (
            delivery.datasource or delivery.profile,
            delivery.feedtype,
            (spool / delivery.path).read_bytes(),
        )
        if delivery.path
        else (delivery.datasource, delivery.feedtype, b"")
        for delivery in deliveries(spool)
    ]


def wait_until_idle(receiver: Receiver) -> None:
    """Wait until a receiver has digested all deliveries."""
    wait_until(lambda: say(receiver.port, get("/getbacklogcount"), method="GET").body == b"0")
