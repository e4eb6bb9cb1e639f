"""The last phase of a job with `verify`: the documents of the run are compared with the target."""

from pathlib import Path

from feedferry.pipelines.options.compare_options import VerifyOptions
from feedferry.pipelines.report.differences import Verification, write_verification
from feedferry.transforms.sinks.push.settings import PushSettings


def verify_run(folder: Path, options: VerifyOptions, push: PushSettings | None) -> Verification:
    """Compare the chunks of a run with a target, and write what differs into its folder.

    Raises TargetError or BusyError if the target cannot be asked yet; nothing is written then.
    """
    from feedferry.pipelines.compare.verify import find_listing, verify  # loads the HTTP client

    with verify((str(folder),), {}, options, find_listing(options, {}, push)) as compared:
        return write_verification(folder, options.against, compared.comparer, compared.counts)
