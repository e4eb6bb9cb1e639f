"""`feedferry serve`: a receiver for clients of an appliance, a rehearsal appliance, a gateway."""

from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import click
import msgspec

from feedferry.pipelines.job.file.job_file import words_with_set
from feedferry.pipelines.observer.logs import configure_logging, log_settings
from feedferry.pipelines.observer.signals import draining, write_in_handler
from feedferry.pipelines.options.convert_options import ACLS_SUFFIX, ConvertOptions
from feedferry.pipelines.options.flags import decode, flags_of
from feedferry.pipelines.options.own_options import own_flags, own_values
from feedferry.pipelines.options.push_options import ApplianceOptions, parse_push_to
from feedferry.pipelines.serve.gateway import Gateway
from feedferry.pipelines.serve.receiver import Receiver
from feedferry.pipelines.serve.retry import retry
from feedferry.pipelines.serve.settings import LOOPBACK, ServeSettings
from feedferry.pipelines.serve.worker_process import WorkerProcess
from feedferry.schemas.errors import ConfigError
from feedferry.transforms.config.yaml_structs import YAML_SUFFIXES
from feedferry.transforms.sinks.push.settings import PushSettings
from feedferry.transforms.sinks.push.wire.address import find_kind

_THIS_MACHINE = ("localhost", "127.0.0.1", "::1")
_STOPPING = "feedferry: Finishing the current requests. Press Ctrl-C again to stop now."


def run(words: Mapping[str, object]) -> int:
    """Serve until a signal arrives; print the URL first, for the process that started this one.

    With `--retry`, only record what the next receiver of the spool tries again.
    """
    settings = parse_serve(words)
    if settings.retry is not None:
        return retry(Path(settings.spool), settings.retry)
    words = _words_with_set(words)
    target = parse_push_to(words, name="forward")
    for flag in ("accept_loss", "state", "transform"):
        if getattr(settings, flag) and target is None:
            raise ConfigError(f"⟦{flag}⟧: given without ⟦forward URL⟧; expected both")
    service = __name__.rpartition(".")[0]
    configure_logging(msgspec.structs.replace(log_settings(), service=service))
    gateway = None
    if target is not None:
        state = _checked_state(settings.state)
        options = ConvertOptions(
            inputs=(),
            output="",
            to_format="",
            accept_loss=settings.accept_loss,
            transform=settings.transform,
            kept_acls=None if state is None else f"{state}{ACLS_SUFFIX}",
            own=own_values(words),
        )
        worker = WorkerProcess(limit_seconds=settings.feed_seconds)
        gateway = Gateway(Path(settings.spool), options, target, worker=worker)
    with ExitStack() as opened:
        receiver = opened.enter_context(Receiver(settings, gateway=gateway))
        if gateway is not None and target is not None:
            _check_target(settings, receiver, target, words)
            opened.enter_context(gateway)
        opened.enter_context(draining(partial(_stop, receiver, settings)))
        click.echo(receiver.url)
        while not receiver.wait(1.0):  # a wait without a timeout would delay signals
            pass
    return 0


def _words_with_set(words: Mapping[str, object]) -> Mapping[str, object]:
    """Return the words with the keys of the target that --set states.

    Raise ConfigError for keys without --forward, and for others.
    """
    if not words.get("overrides"):
        return words
    url = words.get("url")
    if url is None:
        raise ConfigError("⟦overrides⟧: given without ⟦forward URL⟧; expected both")
    kind, _ = find_kind(str(url))
    set_words = words_with_set({**words, "to_format": kind.default_format})
    used = {*own_flags(), *flags_of(ApplianceOptions), *words, "to_format"}
    if others := sorted(set_words.keys() - used):
        raise ConfigError(
            f"⟦overrides⟧: {', '.join(others)}, which a gateway does not have; expected keys of"
            " its target, as target.groups_index=NAME"
        )
    return set_words


def _checked_state(state: str | None) -> str | None:
    """Return the path of a state; raise ConfigError for a folder, a job file or a file of ACLs."""
    if state is None:
        return None
    path = Path(state)
    if path.is_dir() or path.suffix in {ACLS_SUFFIX, *YAML_SUFFIXES}:
        raise ConfigError(f"⟦state⟧: {state!r}; expected a state, such as runs/JOB/state")
    return state


def _stop(receiver: Receiver, settings: ServeSettings) -> None:
    receiver.stop()
    if settings.verbosity >= 0:
        write_in_handler(_STOPPING)


def parse_serve(words: Mapping[str, object]) -> ServeSettings:
    """Return the options of a receiver; raise ConfigError for the first flag with an error."""
    options = decode(ServeSettings, words)
    added = options.trusted if words.get("trusted") else ()
    return msgspec.structs.replace(options, trusted=(*LOOPBACK, *added))


def _check_target(
    settings: ServeSettings, receiver: Receiver, target: PushSettings, words: Mapping[str, object]
) -> None:
    """Raise ConfigError for a gateway that forwards to itself, which would never end."""
    url = urlsplit(target.appliance.url)
    if url.port == receiver.port and url.hostname in (*_THIS_MACHINE, settings.host):
        raise ConfigError(f"--forward {words['url']}: this receiver; expected another appliance")
