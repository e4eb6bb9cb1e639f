"""Runners of Beam, by the names that their users give them."""

from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.runner import PipelineRunner, create_runner

from pipelines.cli.convert_options import ConvertOptions
from pipelines.convert.local_runner import LocalRunner
from schemas.errors import ConfigError
from transforms.sources import find_source


def runner_of(options: ConvertOptions) -> PipelineRunner:
    """Return the runner that is asked for; raise ConfigError if there is none of that name."""
    if options.runner is None:
        return LocalRunner(verbosity=options.verbosity)
    try:
        runner = create_runner(options.runner)
    except (AttributeError, ImportError, TypeError, ValueError) as exc:
        cause = f" ({exc})" if isinstance(exc, ImportError) else ""  # it may say what to install
        raise _bad_runner(f"{options.runner!r}{cause}") from exc
    if not isinstance(runner, PipelineRunner):
        raise _bad_runner(repr(options.runner))
    return runner


def pipeline_options(options: ConvertOptions) -> PipelineOptions:
    """Return what Beam is told: how many workers, and what stood behind `--`."""
    flags = ["--default_sdk_harness_log_level=ERROR", *options.beam_flags]
    source = find_source(options.from_format)
    if options.jobs > 1 and not (source is not None and source.reads_in_threads):
        flags += [
            "--direct_running_mode=multi_processing",
            f"--direct_num_workers={options.jobs}",
        ]
    return PipelineOptions(flags)


def _bad_runner(found: str) -> ConfigError:
    return ConfigError(
        f"--runner: {found}; expected one of Beam's, such as DirectRunner, FlinkRunner or "
        "PortableRunner, or the full name of a class"
    )
