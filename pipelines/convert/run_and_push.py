"""`feedferry convert --push-to`: one run from a source to an appliance.

::

    files ──► convert ──► published chunks ── Push ──► account ──► what is remembered of the sources

Nothing is sent before all is written and the account balances: a run that stops at a threshold has
sent nothing. Started again, it goes on in the part in which it ended.
"""

from pathlib import Path

import apache_beam as beam
import msgspec
from msgspec.structs import replace

from pipelines.cli.convert_options import ConvertOptions
from pipelines.cli.push_options import ApplianceOptions, push_settings
from pipelines.convert import run as convert
from pipelines.convert.runners import pipeline_options, runner_of
from pipelines.push.run import folder_of, push_and_tell, read_manifest, settle, tell_pushed
from transforms.sinks.push.outcome import PushAccount
from transforms.sinks.push.pusher import PushPaths
from transforms.sinks.push.settings import PushSettings
from transforms.stages import Push
from transforms.storage.atomic import write_by_several


def run(options: ConvertOptions, appliance: ApplianceOptions | None) -> int:
    """Convert, then push if an appliance is named; return the exit code of what ended it."""
    if appliance is None:
        return convert.run(options).exit_code
    limit = options.max_rejects
    settings = replace(
        push_settings(appliance),
        jobs=options.jobs,
        can_empty=options.allow_empty_full,
        max_rejects=limit.count if limit is not None else None,
    )

    def deliver(output: Path) -> PushAccount:
        if options.runner is None:
            return push_and_tell(output, read_manifest(output), settings, telling=options)
        return _push_on_beam(output, settings, options)

    return convert.run(options, deliver=deliver).exit_code


def _push_on_beam(output: Path, settings: PushSettings, options: ConvertOptions) -> PushAccount:
    """Push by a worker of the runner that converts as well; it shares the folder of the run."""
    folder = folder_of(output, settings)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "account.json"
    pipeline = beam.Pipeline(runner=runner_of(options), options=pipeline_options(options))
    places = PushPaths(root=output.absolute(), folder=folder.absolute())
    chunks = [msgspec.json.encode(chunk) for chunk in read_manifest(output)]
    _ = (
        pipeline
        | "Chunks" >> beam.Create(chunks)
        | Push(settings, places)
        | "Report" >> beam.Map(_store, str(path.absolute()))
    )
    pipeline.run().wait_until_finish()
    pushed = msgspec.json.decode(path.read_bytes(), type=PushAccount)
    settle(output, pushed, settings)
    return tell_pushed(output, pushed, settings, telling=options)


def _store(account: bytes, path: str) -> None:
    write_by_several(Path(path), account)
