"""Beam's in-process runner, with the options handed to its worker processes.

The bare `DirectRunner` would first try to fetch another runner from the network. The in-process one
starts its workers without the pipeline's options, so that log levels and file systems have none in
them; this subclass hands them over through an attribute that Beam keeps private, which is why
`pyproject.toml` pins Beam's version.
"""

from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.pipeline import Pipeline
from apache_beam.portability.api import beam_provision_api_pb2
from apache_beam.runners.portability.fn_api_runner import fn_runner
from apache_beam.runners.portability.portable_runner import JobServiceHandle
from apache_beam.runners.runner import PipelineResult


class LocalRunner(fn_runner.FnApiRunner):
    """The FnApiRunner whose workers know the options."""

    def run_pipeline(self, pipeline: Pipeline, options: PipelineOptions) -> PipelineResult:
        encoded = JobServiceHandle.encode_pipeline_options(options.get_all_options())
        self._provision_info = fn_runner.ExtendedProvisionInfo(
            beam_provision_api_pb2.ProvisionInfo(pipeline_options=encoded)
        )
        return super().run_pipeline(pipeline, options)
