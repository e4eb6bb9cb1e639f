"""Jobs of other runners: a stall is noticed, and errors of a runner can be resumed from."""

from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.runner import PipelineResult, PipelineRunner, PipelineState

from feedferry.pipelines.convert.workers.beam_job import StallWatch, run_to_file
from feedferry.pipelines.convert.workers.runners import pipeline_options
from feedferry.pipelines.options.convert_options import ConvertOptions
from feedferry.schemas.errors import FatalError
from feedferry.transforms.conversion.convert import CANCELLED
from support.archives import put


def test_a_stall_is_the_same_progress_for_all_of_the_time() -> None:
    times = iter([0.0, 5.0, 10.0, 14.0, 20.0])
    progress = iter([1, 1, 2, 2, 2])
    watch = StallWatch(lambda: next(progress), 10, clock=lambda: next(times))
    for _ in range(3):
        watch.check()
    with pytest.raises(FatalError, match="no progress for 10s, so the job is cancelled"):
        watch.check()


def test_progress_is_not_read_at_each_check() -> None:
    times = iter([0.0, 0.5, 1.0, 14.9, 15.0])
    progress = iter([1, 2])
    watch = StallWatch(lambda: next(progress), 900, clock=lambda: next(times))
    for _ in range(4):
        watch.check()
    assert next(progress, None) is None


def test_a_job_that_was_cancelled_is_resumed_in_this_process(tmp_path: Path) -> None:
    put(tmp_path / CANCELLED, b"")
    pipeline = beam.Pipeline(runner="FnApiRunner")
    options = ConvertOptions(inputs=("a.xml",), output="out", to_format="avro")
    account = pipeline | beam.Create([b"{}"])
    assert run_to_file(pipeline, account, str(tmp_path), options=options) == b"{}"
    assert list(tmp_path.iterdir()) == []


class LostResult(PipelineResult):
    """The result of a job whose cluster is lost."""

    def __init__(self) -> None:
        super().__init__(PipelineState.RUNNING)
        self.is_cancelled = False

    def wait_until_finish(self, duration: float | None = None) -> str:
        raise RuntimeError("\nRemoteTransportException: Connection unexpectedly closed\n\tat java")

    def cancel(self) -> None:
        self.is_cancelled = True


class LosingRunner(PipelineRunner):
    def __init__(self, result: LostResult) -> None:
        self._result = result

    def run_pipeline(self, pipeline: beam.Pipeline, options: object) -> LostResult:
        return self._result


@pytest.mark.parametrize(
    ("runner", "cluster", "flags"),
    [
        ("FlinkRunner", "--flink_master=a:1", ["--parallelism=8", "--sdk_worker_parallelism=4"]),
        ("portable", "--job_endpoint=a:1", ["--parallelism=8", "--sdk_worker_parallelism=4"]),
        ("SparkRunner", "--spark_master_url=a:1", ["--sdk_worker_parallelism=4"]),
        ("PrismRunner", "--job_endpoint=a:1", []),
    ],
)
def test_our_flags_become_those_of_the_runner(runner: str, cluster: str, flags: list[str]) -> None:
    options = ConvertOptions(
        inputs=("a.xml",),
        output="out",
        to_format="avro",
        runner=runner,
        cluster="a:1",
        parallelism=8 if len(flags) > 1 else None,
        workers_per_node=4 if flags else None,
    )
    expected = PipelineOptions(["--default_sdk_harness_log_level=ERROR", cluster, *flags])
    assert pipeline_options(options).get_all_options() == expected.get_all_options()


def test_an_error_of_the_runner_cancels_the_job_and_is_resumed_from(tmp_path: Path) -> None:
    result = LostResult()
    pipeline = beam.Pipeline(runner=LosingRunner(result))
    options = ConvertOptions(
        inputs=("a.xml",), output="out", to_format="avro", runner="LosingRunner"
    )
    account = pipeline | beam.Create([b"{}"])
    with pytest.raises(FatalError) as raised:
        run_to_file(pipeline, account, str(tmp_path), options=options)
    assert str(raised.value) == (
        "--runner LosingRunner: RuntimeError: RemoteTransportException: Connection unexpectedly"
        " closed; the log has all of it; start again to resume"
    )
    assert result.is_cancelled
    assert raised.value.exit_code == 4
