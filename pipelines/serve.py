"""`feedferry serve`: the door of an appliance, for clients of one, for rehearsals, as a gateway."""

import re
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path

import click
import msgspec

from pipelines.gateway import Gateway
from pipelines.options import ConvertOptions
from pipelines.push_options import parse_push_to, push_settings
from pipelines.signals import draining
from pipelines.words import parse_count, parse_fields, parse_size, parse_word
from schemas.errors import ConfigError
from transforms.receiver.receiver import Receiver
from transforms.receiver.settings import ServeSettings

LOOPBACK = ("127.0.0.0/8", "::1")

_MOST_PORTS = 65535
_STOPPING = "feedferry: what is under way is finished; once more ends at once"


def run(words: Mapping[str, object]) -> int:
    """Serve until a signal comes; print the url first, so that who started it can read it."""
    settings = parse_serve(words)
    gateway = _gateway(settings, words)
    is_quiet = words.get("verbosity") == -1
    with ExitStack() as opened:
        receiver = opened.enter_context(_receiver(settings, gateway))
        if gateway is not None:
            opened.enter_context(gateway)
        opened.enter_context(draining(receiver.stop, said=None if is_quiet else _STOPPING))
        click.echo(receiver.url)
        while not receiver.wait(1.0):  # a signal is only heard between two looks
            pass
    return 0


def parse_serve(words: Mapping[str, object]) -> ServeSettings:
    """Return what a receiver is told; raise ConfigError at the first word that cannot be used."""
    if words.get("spool") is None:
        raise ConfigError("--spool: not given; expected a folder for what comes")
    given = {
        name: parse_word(name, words[name], _PARSERS)
        for name in ServeSettings.__struct_fields__
        if words.get(name) is not None
    }
    settings = msgspec.convert(given, ServeSettings)
    named = settings.trusted if "trusted" in given else ()
    return msgspec.structs.replace(settings, trusted=(*LOOPBACK, *named))


def _gateway(settings: ServeSettings, words: Mapping[str, object]) -> Gateway | None:
    appliance = parse_push_to(words, flag="--forward")
    if appliance is None:
        return None
    losses = words.get("accept_loss")
    accepted = parse_fields(losses) if isinstance(losses, str) else frozenset[str]()
    options = ConvertOptions(inputs=(), output="", to_format="", accept_loss=accepted)
    return Gateway(Path(settings.spool), options, push_settings(appliance), tell=_tell)


def _receiver(settings: ServeSettings, gateway: Gateway | None) -> Receiver:
    if gateway is None:
        return Receiver(settings)
    return Receiver(settings, backlog=gateway.backlog)


def _tell(line: str) -> None:
    click.echo(line, err=True)


def _parse_port(text: str) -> int:
    if not re.fullmatch("[0-9]{1,5}", text, re.ASCII) or int(text) > _MOST_PORTS:
        raise ConfigError(f"{text!r}; expected a port from 0, any free one, to {_MOST_PORTS}")
    return int(text)


_PARSERS: dict[str, tuple[str, Callable[..., object]]] = {
    "port": ("--port", _parse_port),
    "trusted": ("--trust", tuple),
    "profiles": ("--receive-profile", tuple),
    "min_free_bytes": ("--min-free", parse_size),
    "max_connections": ("--max-connections", parse_count),
}
