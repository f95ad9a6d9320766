"""Traces are read line by line; what is wrong with one is said with the file, the line and the field."""

from __future__ import annotations

import gzip
import random
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allhands.sim.traces.formats import format_of, open_trace
from allhands.sim.traces.lines import LONGEST_LINE, TraceError
from allhands.sim.traces.samples import muri_lines, philly_lines, sample_jobs, swf_lines
from allhands.sim.traces.swf import SwfTrace
from tests.depth import examples

if TYPE_CHECKING:
    from collections.abc import Iterable

    from allhands.sim.traces.job import TraceJob

SWF = "7 100 -1 60 4 -1 -1 8 3600 -1 1 12 -1 -1 2 -1 -1 -1"
PHILLY = "timestamp,duration,num_gpus,gpu_time,cluster"
MURI = "job_id,num_gpu,submit_time,iterations,model_name,batch_size,duration"


def written(folder: Path, name: str, lines: Iterable[str], *, packed: bool = False) -> Path:
    path = folder / name
    data = ("\n".join(lines) + "\n").encode()
    path.write_bytes(gzip.compress(data) if packed else data)
    return path


def jobs_of(path: Path, format_name: str = "") -> list[TraceJob]:
    return list(open_trace(path, format_name))


def failure(path: Path, format_name: str = "") -> TraceError:
    with pytest.raises(TraceError) as error:
        jobs_of(path, format_name)
    return error.value


def test_an_swf_job_takes_the_larger_of_both_widths_and_says_what_it_requested(tmp_path: Path) -> None:
    trace = open_trace(written(tmp_path, "a.swf", ["; MaxProcs: 128", "", SWF]))
    (job,) = trace
    assert (job.name, job.submit_seconds, job.run_seconds, job.width) == ("7", 100, 60, 8)
    assert (job.requested_seconds, job.user, job.queue) == (3600, "12", "2")
    assert trace.processors == 128


def test_a_machine_that_names_only_its_nodes_has_as_many_processors(tmp_path: Path) -> None:
    trace = open_trace(written(tmp_path, "a.swf", ["; MaxNodes: 256", "; MaxRuntime: 5", SWF]))
    assert len(list(trace)) == 1
    assert trace.processors == 256


def test_a_job_that_requested_nothing_is_expected_to_run_as_long_as_it_did(tmp_path: Path) -> None:
    (job,) = jobs_of(written(tmp_path, "a.swf", [SWF.replace("3600", "-1")]))
    assert (job.requested_seconds, job.expected_seconds) == (None, 60)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (SWF.replace(" 60 ", " 0 "), "never ran"),
        (SWF.replace(" 60 ", " -1 "), "run time unknown"),
        (SWF.replace(" 4 ", " -1 ").replace(" 8 ", " -1 "), "width unknown"),
    ],
)
def test_jobs_of_which_too_little_is_known_are_left_out_and_counted(tmp_path: Path, line: str, reason: str) -> None:
    trace = open_trace(written(tmp_path, "a.swf", [line, SWF, line]))
    assert len(list(trace)) == 1
    assert trace.left_out == {reason: 2}


def test_an_unknown_run_time_may_be_replaced(tmp_path: Path) -> None:
    (job,) = SwfTrace(written(tmp_path, "a.swf", [SWF.replace(" 60 ", " -1 ")]), unknown_run_seconds=10)
    assert job.run_seconds == 10


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (SWF[:20], "18 numbers expected, 7 found (is the file cut off?)"),
        (SWF.replace(" 100 ", " soon "), "submit time (column 2) is not a number: 'soon'"),
        (SWF.replace(" 100 ", " -5 "), "submit time (column 2) is -5: not between 0 and 274877906944"),
        (SWF.replace(" 60 ", " 1e300 "), "run time (column 4) is 1e300: not between -1 and 274877906944"),
        (SWF.replace(" 60 ", " nan "), "run time (column 4) is not a number: 'nan'"),
        (SWF.replace(" 60 ", " inf "), "run time (column 4) is not a number: 'inf'"),
        (SWF.replace(" 4 ", " 99999999999 "), "processors (column 5) is 99999999999: not between -1 and 1073741824"),
        (SWF.replace("3600", "-7"), "requested time (column 9) is -7: not between -1 and 274877906944"),
    ],
)
def test_a_line_that_makes_no_sense_is_named_with_its_field(tmp_path: Path, line: str, problem: str) -> None:
    path = written(tmp_path, "a.swf", [SWF, "; a remark", line])
    error = failure(path)
    assert (error.path, error.line, error.problem) == (path, 3, problem)
    assert str(error) == f"{path}, line 3: {problem}"


def test_jobs_before_the_broken_line_have_been_given(tmp_path: Path) -> None:
    stream = iter(open_trace(written(tmp_path, "a.swf", [SWF, "1 2"])))
    assert next(stream).name == "7"
    with pytest.raises(TraceError, match="line 2"):
        next(stream)


def test_a_packed_file_that_is_cut_off_says_after_which_line(tmp_path: Path) -> None:
    chance = random.Random(1)
    path = written(tmp_path, "a.swf.gz", swf_lines(sample_jobs(chance, 2000, 64), 64, 1), packed=True)
    path.write_bytes(path.read_bytes()[:-2000])
    error = failure(path)
    assert "cut off" in error.problem
    assert error.line > 100


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"\x1f\x8b" + b"\0" * 30, "the packed file is damaged after this line"),
        (b"7 100 \xff\xfe", "it is not text: byte 0xff"),
        (b"1" * (LONGEST_LINE + 5), "the line is longer than 65536 bytes"),
    ],
)
def test_a_file_that_is_no_trace_at_all_is_refused(tmp_path: Path, data: bytes, problem: str) -> None:
    path = tmp_path / "a.swf"
    path.write_bytes(data)
    assert failure(path).problem.startswith(problem)


def test_a_file_that_is_not_there_is_said_to_be_missing(tmp_path: Path) -> None:
    assert failure(tmp_path / "none.swf").problem == "cannot be read: No such file or directory"


def test_philly_jobs_have_local_times_gpus_and_a_virtual_cluster(tmp_path: Path) -> None:
    rows = [PHILLY, "2017-10-09 07:01:55,66.0,2,132.0,11cb48", "", "2017-10-09 07:02:00,0.0,1,0.0,x"]
    trace = open_trace(written(tmp_path, "jobs.csv", rows))
    (job,) = trace
    assert (job.submit_seconds, job.run_seconds, job.width, job.queue) == (1507532515, 66, 2, "11cb48")
    assert trace.left_out == {"never ran": 1}


def test_muri_times_are_milliseconds(tmp_path: Path) -> None:
    first, second = jobs_of(written(tmp_path, "trace.csv", [MURI, "0,16,27069000,9,m,1,1453510000", "1,1,0,9,m,1,1"]))
    assert (first.width, first.submit_seconds, first.run_seconds) == (16, 27069, 1453510)
    assert second.run_seconds == 1


@pytest.mark.parametrize(
    ("lines", "line", "problem"),
    [
        ([PHILLY, "2017-10-09 07:01:55,66.0,2"], 2, "5 fields expected, 3 found (is the file cut off?)"),
        ([PHILLY, "yesterday,66.0,2,1,x"], 2, "timestamp is no time of the form 2017-10-09 07:01:55: 'yesterday'"),
        ([PHILLY, "1917-10-09 07:01:55,66.0,2,1,x"], 2, "timestamp is before 1970: '1917-10-09 07:01:55'"),
        ([PHILLY, "2017-10-09 07:01:55,-1,2,1,x"], 2, "duration is -1: not between 0 and 274877906944"),
        ([PHILLY, '2017-10-09 07:01:55,1,2,1,"x'], 2, "not a line of a table: unexpected end of data"),
        (["timestamp,duration,num_gpus,gpu_time"], 1, "the heading lacks cluster"),
    ],
)
def test_tables_say_which_line_is_wrong_and_why(tmp_path: Path, lines: list[str], line: int, problem: str) -> None:
    error = failure(written(tmp_path, "jobs.csv", lines), "philly")
    assert (error.line, error.problem) == (line, problem)


def test_the_format_is_told_by_name_and_heading(tmp_path: Path) -> None:
    assert format_of(written(tmp_path, "x-2.2-cln.swf.gz", [SWF], packed=True)) == "swf"
    assert format_of(written(tmp_path, "x.csv", [PHILLY])) == "philly"
    assert format_of(written(tmp_path, "y.csv.gz", [MURI], packed=True)) == "muri"
    with pytest.raises(TraceError, match="say which of swf, philly, muri"):
        format_of(written(tmp_path, "z.csv", ["a,b"]))
    with pytest.raises(TraceError, match="no such format: sfw; there are swf, philly, muri"):
        open_trace(tmp_path / "x.swf", "sfw")


@settings(max_examples=examples(30))
@given(st.lists(st.text(st.characters(codec="ascii"), max_size=60), max_size=4), st.sampled_from(["swf", "philly"]))
def test_whatever_stands_in_a_file_gives_jobs_or_an_error_with_its_place(lines: list[str], name: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x"
        path.write_text("\n".join(lines), encoding="ascii", newline="")
        try:
            jobs = jobs_of(path, name)
        except TraceError as error:
            assert str(path) in str(error)
        else:
            assert all(job.width > 0 and job.run_seconds > 0 for job in jobs)


def test_our_own_samples_are_what_their_seed_makes_of_them() -> None:
    folder = Path(__file__).parents[4] / "examples" / "traces"
    made = {
        "sample.swf": swf_lines(sample_jobs(random.Random(20), 400, 64), 64, 20),
        "sample-philly.csv": philly_lines(sample_jobs(random.Random(21), 200, 32)),
        "sample-muri.csv": muri_lines(sample_jobs(random.Random(22), 200, 32)),
    }
    for name, lines in made.items():
        assert (folder / name).read_text(encoding="utf-8") == "\n".join(lines) + "\n"


def test_a_sample_reads_back_as_it_was_made(tmp_path: Path) -> None:
    made = list(sample_jobs(random.Random(3), 50, 64))
    assert jobs_of(written(tmp_path, "s.swf", swf_lines(made, 64, 3))) == made
    muri = jobs_of(written(tmp_path, "m.csv", muri_lines(made)))
    assert [(it.submit_seconds, it.run_seconds, it.width) for it in muri] == [
        (it.submit_seconds, it.run_seconds, it.width) for it in made
    ]
    philly = jobs_of(written(tmp_path, "p.csv", philly_lines(made)))
    assert [(it.run_seconds, it.width) for it in philly] == [(it.run_seconds, it.width) for it in made]
