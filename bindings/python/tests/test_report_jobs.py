# SPDX-License-Identifier: Apache-2.0
"""horovodrun report on what real jobs have left."""

import re
import subprocess
import sys

import pytest

STEPS = 40


def _report(*arguments):
    command = [sys.executable, "-m", "horovod.runner", "report", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("cause, text, ranks", [("compute", "slow compute", 2), ("sleep", "sleeping data loader", 3)])
def test_the_slow_rank_of_a_job_is_named_with_its_cause(horovodrun, tmp_path, cause, text, ranks):
    horovodrun(ranks, "recorded.py", cause, "1", flags=["--output-filename", str(tmp_path)])
    done = _report(tmp_path)
    assert done.returncode == 0, done.stderr
    verdict = re.match(r"Rank 1 on host localhost makes every step (\d+\.\d) ms longer \(\d+ %\): it ", done.stdout)
    # The cause costs 30 ms a step, and more where cores are short; the rest of a step is 6 ms or so.
    assert verdict and 20 < float(verdict[1]) < 200, done.stdout
    assert f"  {text}: " in done.stdout and re.search(rf"\n{STEPS - 2} steps of [\d.]+ ms", done.stdout), done.stdout
    page = (tmp_path / "report.html").read_text()
    assert verdict[0] in page and text in page and "gradient.2" in page
    assert '"hvd engine"' in (tmp_path / "rank.0" / "samples.jsonl").read_text()  # the library's thread has a name of its own


def test_the_page_goes_where_it_is_asked_for(horovodrun, tmp_path):
    horovodrun(2, "recorded.py", "none", "0", flags=["--output-filename", str(tmp_path / "job")])
    assert _report(tmp_path / "job", "-o", "-").returncode == 0
    assert not list(tmp_path.rglob("*.html"))
    done = _report(tmp_path / "job", "-o", tmp_path / "page.html")
    assert f"The whole report: {tmp_path}/page.html\n" in done.stdout and (tmp_path / "page.html").stat().st_size > 5000
    refused = _report(tmp_path / "job", "-o", tmp_path / "no such folder" / "page.html")
    assert refused.returncode == 2 and "no such file or directory; -o names another file" in refused.stderr


@pytest.mark.parametrize("arguments, text", [
    (["nowhere"], "nowhere: no such folder"),
    ([], "the following arguments are required: FOLDER"),
    (["."], "no rank.N/records.jsonl in it; run the job with horovodrun --output-filename"),
])
def test_what_is_no_job_is_refused(tmp_path, monkeypatch, arguments, text):
    monkeypatch.chdir(tmp_path)
    done = _report(*arguments)
    assert done.returncode == 2 and done.stdout == "" and text in done.stderr and done.stderr.count("\n") == 1
