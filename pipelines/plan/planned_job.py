"""The plan of a job file, or of the flags of `convert`."""

import os
from collections.abc import Mapping

from msgspec.structs import replace

from feedferry.pipelines.job.file.flag_job import job_of_flags
from feedferry.pipelines.job.file.job import Job
from feedferry.pipelines.job.file.job_file import job_file_of, load_job
from feedferry.pipelines.observer.observer import Observer, Step, followed
from feedferry.pipelines.options.value_parsers import NO_OUTPUT, SampleSize
from feedferry.pipelines.plan.plan import Plan, make_plan, predict_push


def find_planned(words: Mapping[str, object]) -> Job:
    """Return the job of the only INPUT if that is a job file, otherwise that of the flags."""
    if (path := job_file_of(words)) is None:
        return job_of_flags({**words, "output": NO_OUTPUT})
    flags = {name: word for name, word in words.items() if name not in ("inputs", "sample")}
    job = load_job(path, flags, os.environ)
    if job.home.exists():
        return job
    return replace(job, convert=replace(job.convert, state=None))  # that of a first run is empty


def plan_job(job: Job, observer: Observer, sample: SampleSize | None = None) -> Plan:
    """Return the plan of the next run, of a `sample` of the input if one is given.

    Raises FeedferryError where the run would not begin. Nothing is written.
    """
    with job.errors_in_keys(), followed(observer, Step.PLAN) as step:
        push = job.push and replace(job.push, max_widened=job.convert.max_widened)
        plan = make_plan(job.convert, sample, push=push)
        if job.path is not None and job.push is not None:
            plan = replace(plan, push=predict_push(plan.report.chunk_bytes, job.home))
        if job.push is not None and (exchange := job.push.appliance.protocol.exchange):
            exchanges = (exchange(job.push.appliance, name) for name in plan.full_feeds)
            plan = replace(plan, exchanges=tuple(exchanges))
        if job.verify is not None:
            plan = replace(plan, verified_against=job.verify.against)
        step.result = plan = replace(plan, stops=tuple(map(job.reword, plan.stops)))
    return plan
