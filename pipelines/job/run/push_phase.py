"""The push of a run: in this process, or by a worker of the runner that has converted it."""

from pathlib import Path

import apache_beam as beam
import msgspec
from msgspec.structs import replace

from feedferry.pipelines.convert.workers.beam_job import run_to_file
from feedferry.pipelines.convert.workers.runners import pipeline_options, runner_of
from feedferry.pipelines.folders.manifest import read_manifest, receipts_folder
from feedferry.pipelines.observer.observer import Observer, Step, followed
from feedferry.pipelines.options.convert_options import ConvertOptions
from feedferry.pipelines.options.flags import shared_options
from feedferry.pipelines.push.engine import notify_stop, push_chunks
from feedferry.pipelines.push.record import PushResult, record_push
from feedferry.pipelines.report.run_report import write_report
from feedferry.transforms.sinks.push.generations import check_generation
from feedferry.transforms.sinks.push.outcome import PushAccount
from feedferry.transforms.sinks.push.settings import PushSettings
from feedferry.transforms.stages import Push
from feedferry.transforms.storage.run_folders.mirrors import fetch_journals, locked, shown


def push_settings(target: PushSettings, options: ConvertOptions) -> PushSettings:
    """Return how the chunks of a conversion are pushed to a target."""
    limit = options.max_rejects
    settings = replace(target, **shared_options(options, PushSettings))
    return replace(settings, max_rejects=None if limit is None else limit.count)


def push_output(
    output: Path, settings: PushSettings, options: ConvertOptions, observer: Observer
) -> PushResult:
    """Push the published chunks: in this process, or with --runner by a worker of the runner."""
    if options.runner is None:
        return push_chunks(output, read_manifest(output), settings, observer)
    with followed(observer, Step.PUSH) as step:
        step.result = result = _push_on_beam(output, settings, options)
    notify_stop(result, observer)
    return result


def _push_on_beam(output: Path, settings: PushSettings, options: ConvertOptions) -> PushResult:
    """Push by one worker, which shares the folder of the run, or object storage."""
    folder = receipts_folder(output, settings).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    root, receipts = shown(output.absolute()), shown(folder)
    manifest = read_manifest(output)
    with locked(folder, by="push"):  # a worker could only fail
        check_generation(output, manifest, settings)
    pipeline = beam.Pipeline(runner=runner_of(options), options=pipeline_options(options))
    chunks = [msgspec.json.encode(chunk) for chunk in manifest]
    total = pipeline | "Chunks" >> beam.Create(chunks) | Push(settings, root, receipts)
    text = run_to_file(pipeline, total, receipts, options=options)
    fetch_journals(folder)
    result = record_push(output, msgspec.json.decode(text, type=PushAccount), settings)
    write_report(output)
    return result
