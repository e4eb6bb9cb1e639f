"""Print the checks of `cluster-check`."""

from collections.abc import Mapping

from pipelines.cli.check_results import print_lines
from pipelines.doctor.cluster_check import check_cluster
from pipelines.options.convert_options import ConvertOptions
from pipelines.options.display_options import DisplayOptions
from pipelines.options.flags import decode
from transforms.formats import AVRO


def print_cluster_check(words: Mapping[str, object]) -> int:
    """Print a line for each worker; return 4 if one of them cannot work."""
    given = {**words, "inputs": ("-",), "to_format": AVRO.name}
    check = check_cluster(decode(ConvertOptions, given))
    about = {"command": check.command, "workers": check.workers}
    return print_lines(check.lines(), decode(DisplayOptions, words).report_format, about)
