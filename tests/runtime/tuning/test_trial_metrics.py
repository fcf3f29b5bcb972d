"""What a trial reports in lines on stdout."""

from __future__ import annotations

from pathlib import Path

from vtrain.messages.custom_job import CustomJob
from vtrain.runtime.home import Home
from vtrain.runtime.output_numbers import PRIMARY
from vtrain.runtime.process.journal import STDOUT, JournalWriter
from vtrain.runtime.tuning.metric_file import TrialMetrics


def test_a_look_reads_to_the_end_of_a_long_log(vtrain_home: Path) -> None:
    job = CustomJob(
        name="projects/local/locations/us-central1/customJobs/1", create_time="2026-11-01T10:00:00Z"
    )
    logs = Home(vtrain_home).job(job.name).logs
    logs.mkdir(parents=True)
    writer = JournalWriter(str(logs / PRIMARY), 0)
    for _ in range(5):
        writer.write(b"%s\n" % (b"x" * 1024 * 1024), STDOUT)
    writer.write(b'{"loss": 0.25, "step": 3}\n', STDOUT)
    writer.close()
    metrics = TrialMetrics(job, vtrain_home, ["loss"], ())
    assert metrics.read(ended=True)
    assert [one.metrics[0].value for one in metrics.measured] == [0.25]
