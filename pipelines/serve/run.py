"""`feedferry serve`: the door of an appliance, for clients of one, for rehearsals, as a gateway."""

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import click
import msgspec

from pipelines.cli.convert_options import ConvertOptions
from pipelines.cli.flags import decode
from pipelines.cli.push_options import (
    appliance_of,
    parse_appliance,
    parse_push_to,
    push_settings,
)
from pipelines.cli.signals import draining
from pipelines.push.run import keep_still, tell
from pipelines.serve.delivery_conversion import Conversion
from pipelines.serve.forward_journal import FORWARDED, read_set_aside
from pipelines.serve.forwarder import FORWARD, Voice
from pipelines.serve.gateway import Gateway, describe
from pipelines.serve.receiver import INDEX, Receiver
from pipelines.serve.rehearsal import full_feed_deletions
from pipelines.serve.rehearsal.set_aside import ALL, SetAside, TimeLimit, answered, ask, asked
from pipelines.serve.settings import LOOPBACK, ServeOptions, ServeSettings
from schemas.delivery import JOURNAL
from schemas.errors import ConfigError

_MOST_TOLD = 20
_THIS_MACHINE = ("localhost", "127.0.0.1", "::1")
_STOPPING = "feedferry: what is under way is finished; once more ends at once"


def run(words: Mapping[str, object]) -> int:
    """Serve until a signal comes; print the url first, so that who started it can read it.

    With `--retry`, leave a note for the receiver of the spool instead.
    """
    settings = parse_serve(words)
    if settings.retry is not None:
        return retry(Path(settings.spool), settings.retry)
    gateway = _gateway(settings, words)
    is_quiet = settings.verbosity < 0
    with ExitStack() as opened:
        receiver = opened.enter_context(_receiver(settings, gateway))
        if gateway is not None:
            _refuse_itself(settings, receiver, words)
            opened.enter_context(gateway)
        opened.enter_context(draining(receiver.stop, said=None if is_quiet else _STOPPING))
        click.echo(receiver.url)
        while not receiver.wait(1.0):  # a signal is only heard between two looks
            _take_retries(Path(settings.spool), receiver, gateway)
    return 0


def parse_serve(words: Mapping[str, object]) -> ServeOptions:
    """Return the options of a receiver; raise ConfigError for the first word that is unusable."""
    if words.get("spool") is None:
        raise ConfigError("--spool: not given; expected a folder for what is received")
    options = decode(ServeOptions, words)
    added = options.trusted if words.get("trusted") else ()
    return msgspec.structs.replace(options, trusted=(*LOOPBACK, *added))


def _gateway(settings: ServeOptions, words: Mapping[str, object]) -> Gateway | None:
    appliance = parse_push_to(words, flag="--forward")
    if appliance is None:
        if settings.accept_loss:
            raise ConfigError("--accept-loss: given without --forward URL; expected both")
        return None
    options = ConvertOptions(inputs=(), output="", to_format="", accept_loss=settings.accept_loss)
    voice = Voice(tell=tell, remark=keep_still if settings.verbosity < 0 else tell)
    conversion = Conversion(limit=TimeLimit(seconds=settings.feed_seconds))
    return Gateway(Path(settings.spool), options, push_settings(appliance), voice, conversion)


def _refuse_itself(
    settings: ServeSettings, receiver: Receiver, words: Mapping[str, object]
) -> None:
    """Raise ConfigError for a gateway that would take for ever what it forwards itself."""
    target = urlsplit(appliance_of(parse_appliance(words, flag="--forward")).url)
    if target.port == receiver.port and target.hostname in (*_THIS_MACHINE, settings.host):
        raise ConfigError(f"--forward {words['url']}: where it listens itself; expected another")


def _receiver(settings: ServeSettings, gateway: Gateway | None) -> Receiver:
    if gateway is None:
        return Receiver(settings)
    return Receiver(settings, backlog=gateway.backlog, set_aside=gateway.set_aside)


def retry(spool: Path, wanted: str) -> int:
    """Ask for another attempt at what is set aside: all, a delivery, or those of a datasource."""
    aside = _all_set_aside(spool)
    chosen = [one for one in aside if wanted in (ALL, str(one.ordinal), one.name)]
    if not chosen and wanted != ALL:
        known = ", ".join(sorted({f"{one.ordinal} ({one.name})" for one in aside[:_MOST_TOLD]}))
        raise ConfigError(
            f"--retry {wanted}: not set aside in {spool}; expected all, or the number or datasource"
            f" of one of: {known or 'none is set aside'}"
        )
    ordinals = {one.ordinal for one in chosen}
    ask(spool, ordinals)
    for one in chosen:
        click.echo(f"delivery {one.ordinal} of {one.name!r}, by the {one.by.value}: {one.reason}")
    click.echo(
        f"{len(ordinals)} to be retried by the receiver of {spool}, now or at its next start"
        if chosen
        else f"nothing is set aside in {spool}"
    )
    return 0


def _all_set_aside(spool: Path) -> list[SetAside]:
    if not (spool / JOURNAL).exists():
        raise ConfigError(f"--spool {spool}: no {JOURNAL} in it; expected the folder of a receiver")
    forwarded = read_set_aside(spool / FORWARD / FORWARDED).values()
    found = [
        *full_feed_deletions.read_set_aside(spool / INDEX),
        *(describe(spool, one) for one in forwarded),
    ]
    return sorted(found, key=lambda one: one.ordinal)


def _take_retries(spool: Path, receiver: Receiver, gateway: Gateway | None) -> None:
    for ordinal in asked(spool):
        if receiver.retry(ordinal):  # the index first: a gateway may need what it then knows
            if gateway is not None:
                gateway.retry(ordinal)
            answered(spool, ordinal)
