"""The local runner: its pipelines run, and its worker processes get the options."""

import logging
import pickle
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions, TypeOptions
from apache_beam.runners.worker import statesampler
from apache_beam.testing.util import assert_that, equal_to

from feedferry.pipelines.convert.workers.runners import LocalRunner, pipeline_options
from feedferry.pipelines.options.convert_options import ConvertOptions

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
TWO_PROCESSES = ("--direct_running_mode=multi_processing", "--direct_num_workers=2")


def test_a_pipeline_runs_in_this_process() -> None:
    with beam.Pipeline(runner=LocalRunner()) as pipeline:
        assert_that(pipeline | beam.Create([1, 2]) | beam.Map(str), equal_to(["1", "2"]))


def test_an_exception_of_a_step_is_raised_unchanged() -> None:
    with pytest.raises(ZeroDivisionError), beam.Pipeline(runner=LocalRunner()) as pipeline:
        _ = pipeline | beam.Create([0]) | beam.Map(lambda number: 1 / number)


def test_a_worker_process_has_the_log_level_of_the_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))  # where the worker finds this module
    flags = ["--default_sdk_harness_log_level=CRITICAL", *TWO_PROCESSES]
    report = tmp_path / "level"

    with beam.Pipeline(runner=LocalRunner(), options=PipelineOptions(flags)) as pipeline:
        _ = pipeline | beam.Create([str(report)]) | beam.Map(_write_level)

    assert report.read_text() == "CRITICAL"


def test_a_view_of_the_options_is_made_once_and_has_their_values() -> None:
    options = pipeline_options(ConvertOptions(inputs=("a",), output="out", to_format="jsonl"))
    view = options.view_as(TypeOptions)
    assert options.view_as(TypeOptions) is view
    view.runtime_type_check = True
    assert options.get_all_options(drop_default=True)["runtime_type_check"] is True
    assert pickle.loads(pickle.dumps(options)).view_as(TypeOptions).runtime_type_check is True


@pytest.mark.parametrize("flags", [(), TWO_PROCESSES], ids=["in this process", "two processes"])
def test_the_end_of_a_bundle_waits_for_a_sample_for_few_milliseconds(
    flags: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    report = tmp_path / "period"

    with beam.Pipeline(runner=LocalRunner(), options=PipelineOptions([*flags])) as pipeline:
        _ = pipeline | beam.Create([str(report)]) | beam.Map(_write_sampling_period)

    assert int(report.read_text()) <= 5


def _write_sampling_period(path: str) -> None:
    sampler = statesampler.get_current_tracker()
    assert sampler is not None
    Path(path).write_text(str(sampler.sampling_period_ms))


def _write_level(path: str) -> None:
    Path(path).write_text(logging.getLevelName(logging.getLogger().level))
