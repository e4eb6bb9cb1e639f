"""`feedferry convert --push-to`: one run from a source to an appliance.

::

    inputs ──► convert ──► published chunks ── Push ──► account ──► state of the sources

Nothing is sent before all chunks are written and the account balances: a run that stops at a limit
has sent nothing. A run that is started again continues in the part in which it ended.
"""

from pathlib import Path

import apache_beam as beam
import msgspec
from msgspec.structs import replace

from pipelines.cli.convert_options import ConvertOptions
from pipelines.cli.push_options import ApplianceOptions, push_settings
from pipelines.convert import run as convert
from pipelines.convert.runners import pipeline_options, runner_of
from pipelines.push.run import print_account, push_and_report
from pipelines.push.run_folder import paths_of, read_manifest, record_push
from transforms.sinks.push.outcome import PushAccount
from transforms.sinks.push.pusher import PushPaths
from transforms.sinks.push.settings import PushSettings
from transforms.stages import Push


def run(options: ConvertOptions, appliance: ApplianceOptions | None) -> int:
    """Convert, then push if an appliance is named; return the exit code of the run."""
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
            return push_and_report(output, read_manifest(output), settings, output=options)
        return _push_on_beam(output, settings, options)

    return convert.run(options, deliver=deliver).exit_code


def _push_on_beam(output: Path, settings: PushSettings, options: ConvertOptions) -> PushAccount:
    """Push by a worker of the runner that converts as well; it shares the folder of the run."""
    folder = paths_of(output, settings).folder
    folder.mkdir(parents=True, exist_ok=True)
    pipeline = beam.Pipeline(runner=runner_of(options), options=pipeline_options(options))
    paths = PushPaths(root=output.absolute(), folder=folder.absolute())
    chunks = [msgspec.json.encode(chunk) for chunk in read_manifest(output)]
    account = pipeline | "Chunks" >> beam.Create(chunks) | Push(settings, paths)
    text = convert.run_to_file(pipeline, account, folder / "account.json")
    push_account = msgspec.json.decode(text, type=PushAccount)
    record_push(output, push_account, settings)
    print_account(output, push_account, settings, output=options)
    return push_account
