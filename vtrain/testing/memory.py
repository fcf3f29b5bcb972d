"""A backend in memory: jobs that follow scripts, without a process, a disk or a clock of their own.

Time passes when the state is asked: the first `get` after `submit` starts the job, and each one more
lets every replica do one step of its script.
"""

from __future__ import annotations

import signal

import msgspec

from vtrain.backends import PROTOCOL_VERSION, Page, Plan, Query, Replica
from vtrain.errors import ConfigError, ConflictError, NotFoundError, UnavailableError
from vtrain.messages import states
from vtrain.messages.custom_job import CustomJob
from vtrain.messages.log import LogEntry, LogPage, LogQuery
from vtrain.messages.names import CUSTOM_JOBS, DEFAULT_REGION, LOCAL_PROJECT, ResourceName
from vtrain.messages.resources import Job
from vtrain.messages.rules import check_job
from vtrain.messages.structs import Status
from vtrain.runtime.folder import ReplicaExit
from vtrain.runtime.recovery import Action, Restart, action_after, cause_of
from vtrain.runtime.replica.vertex_view import JobContext, replica_argv, replica_environment, replica_ids
from vtrain.testing.script import Script, read_script
from vtrain.times import timestamp

_INFO = "type.googleapis.com/google.rpc.ErrorInfo"


class _Player(msgspec.Struct):
    """One replica: what it still has to do, and how it ended."""

    name: str
    script: Script
    step: int = 0
    attempt: int = 0
    exit_code: int | None = None


class _Run(msgspec.Struct):
    """One job under way."""

    job: CustomJob
    players: list[_Player]
    entries: list[LogEntry]
    cancelled: bool = False
    restarts: tuple[Restart, ...] = ()


class MemoryBackend:
    """Runs scripted jobs. `script_job` makes them; any other Python package job succeeds silently."""

    protocol_version = PROTOCOL_VERSION

    def __init__(self, *, project: str = LOCAL_PROJECT, region: str = DEFAULT_REGION) -> None:
        self._project = project
        self._region = region
        self._runs: dict[str, _Run] = {}
        self._submitted = 0
        self._clock = 1_000_000_000_000_000_000

    def plan(self, job: Job) -> Plan:
        """Exactly what submit would do. Raises UnavailableError for a job without a Python package."""
        if not isinstance(job, CustomJob):
            raise UnavailableError("The backend in memory runs custom jobs only.")
        check_job(job, executor_required=False)
        spec = job.job_spec
        if any(pool.container_spec is not None for pool in spec.worker_pool_specs):
            raise UnavailableError("The backend in memory runs no containers.")
        members = replica_ids(spec)
        context = JobContext(job_id="0", region=self._region, hosts={m: f"{m.name}:2222" for m in members})
        replicas = []
        for member in members:
            task = spec.worker_pool_specs[member.pool].python_package_spec
            assert task is not None
            env = replica_environment(spec, member, context)
            replicas.append(Replica(name=member.name, argv=replica_argv(task), env=env))
        return Plan(job=job, backend="memory", replicas=tuple(replicas))

    def submit(self, plan: Plan) -> CustomJob:
        """Take the job in; it is PENDING until somebody asks."""
        self._submitted += 1
        name = ResourceName(
            project=self._project,
            location=self._region,
            collection=CUSTOM_JOBS,
            id=str(10**18 + self._submitted),
        )
        now = timestamp()
        assert isinstance(plan.job, CustomJob)
        job = msgspec.structs.replace(
            plan.job, name=str(name), state=states.PENDING, create_time=now, update_time=now
        )
        pools = job.job_spec.worker_pool_specs
        players = [_Player(m.name, read_script(pools[m.pool])) for m in replica_ids(job.job_spec)]
        self._runs[job.name] = _Run(job, players, [])
        return job

    def get(self, name: str) -> CustomJob:
        """The job as it stands, one step later than at the last question."""
        run = self._run(name)
        job = run.job
        self._advance(run)
        return job

    def list(self, query: Query) -> Page:
        """Jobs, newest first. Raises ConfigError for a page token that is none."""
        if query.page_token and not query.page_token.isdecimal():
            raise ConfigError(f"{query.page_token!r} is not a page token.")
        if query.collection != CUSTOM_JOBS:
            return Page(jobs=())
        prefix = f"projects/{query.project}/locations/{query.location or ''}"
        wanted = query.labels.items()
        jobs = [
            run.job
            for run in reversed(self._runs.values())
            if run.job.name.startswith(prefix) and wanted <= run.job.labels.items()
        ]
        start = int(query.page_token or 0)
        stop = start + max(query.page_size, 1)
        return Page(jobs=tuple(jobs[start:stop]), next_page_token=str(stop) if stop < len(jobs) else "")

    def logs(self, query: LogQuery) -> LogPage:
        """Entries from the cursor on, as many as the limit allows, at least one where there is one."""
        run = self._run(query.name)
        position, taken = int(query.cursor or 0), 0
        entries: list[LogEntry] = []
        while position < len(run.entries) and (not entries or taken < query.limit):
            entry = run.entries[position]
            position += 1
            if query.task_name in ("", entry.task_name) and not query.trial_id and entry.time >= query.since:
                entries.append(_raw(entry) if query.raw else entry)
                taken += len(entry.payload)
        return LogPage(entries=tuple(entries), cursor=str(position))

    def cancel(self, name: str) -> None:
        """Ask the job to end."""
        run = self._run(name)
        if not states.has_ended(run.job.state):
            run.cancelled = True

    def delete(self, name: str) -> None:
        """Forget an ended job. Raises ConflictError while it runs."""
        run = self._run(name)
        if not states.has_ended(run.job.state):
            raise ConflictError(f"{name} has not ended.", hint="Cancel it first.")
        del self._runs[name]

    def _run(self, name: str) -> _Run:
        if name not in self._runs:
            raise NotFoundError(f"There is no {name}.")
        return self._runs[name]

    def _advance(self, run: _Run) -> None:
        if states.has_ended(run.job.state):
            return
        if run.cancelled:
            if run.job.state == states.CANCELLING:
                _end(run, states.CANCELLED, Status(code=1, message="CANCELED"))
            else:
                run.job = msgspec.structs.replace(run.job, state=states.CANCELLING, update_time=timestamp())
        elif run.job.state == states.PENDING:
            now = timestamp()
            run.job = msgspec.structs.replace(run.job, state=states.RUNNING, start_time=now, update_time=now)
        else:
            self._play(run)

    def _play(self, run: _Run) -> None:
        for player in run.players:
            if player.exit_code is None:
                self._step(run, player)
            if player.exit_code:
                _follow(run, player)
                return
        if run.players and run.players[0].exit_code == 0:
            _end(run, states.SUCCEEDED, None)

    def _step(self, run: _Run, player: _Player) -> None:
        if player.step == len(player.script.steps):
            player.exit_code = 0
            return
        action, value = player.script.steps[player.step]
        if action == "hang" or (action == "hang_first" and player.attempt < int(value)):
            return
        player.step += 1
        if action in ("stdout", "stderr"):
            self._write(run, player, action, str(value))
        elif action == "count":
            self._write(run, player, "stdout", "".join(f"line {number}\n" for number in range(int(value))))
        elif action == "grandchild":
            self._write(run, player, "stdout", "0\n")
        elif action in ("exit", "die"):
            player.exit_code = int(value) + (128 if action == "die" else 0)
        elif action == "crash_first" and player.attempt < int(value):
            player.exit_code = 128 + signal.SIGABRT

    def _write(self, run: _Run, player: _Player, stream: str, text: str) -> None:
        for line in text.removesuffix("\n").split("\n"):
            self._clock += 1_000_000
            run.entries.append(
                LogEntry(
                    time=self._clock,
                    insert_id=f"{player.name}/{stream}/{len(run.entries)}",
                    severity="INFO" if stream == "stdout" else "ERROR",
                    task_name=player.name,
                    payload=line.encode(),
                    attempt=player.attempt,
                    stream=stream,
                )
            )


def _follow(run: _Run, player: _Player) -> None:
    """Do what the rules say about a replica that failed."""
    end = ReplicaExit(code=player.exit_code or 0, started=0.0, ended=0.0)
    cause = cause_of(end)
    action = action_after(cause, player.name, run.restarts, run.job.job_spec.scheduling)
    if action is Action.FAIL:
        _end(run, states.FAILED, _failed(player, len(run.restarts)))
        return
    again = [player] if action is Action.RESTART_REPLICA else run.players
    restart = Restart(
        time=0.0,
        cause=player.name,
        replicas=tuple(other.name for other in again),
        reason=cause.value,
        is_retry=action is Action.RETRY_JOB,
    )
    run.restarts = (*run.restarts, restart)
    for other in again:
        other.step, other.exit_code, other.attempt = 0, None, other.attempt + 1


def _end(run: _Run, state: str, error: Status | None) -> None:
    now = timestamp()
    run.job = msgspec.structs.replace(run.job, state=state, error=error, end_time=now, update_time=now)


def _failed(player: _Player, restarts: int) -> Status:
    metadata = {"replica": player.name, "exitCode": str(player.exit_code)}
    if restarts:
        metadata["restarts"] = str(restarts)
    return Status(
        code=3,
        message=f"The replica {player.name} exited with a non-zero status of {player.exit_code}.",
        details=({"@type": _INFO, "reason": "REPLICA_FAILED", "domain": "vtrain", "metadata": metadata},),
    )


def _raw(entry: LogEntry) -> LogEntry:
    ending = b"" if entry.partial else b"\n"
    return msgspec.structs.replace(entry, payload=entry.payload + ending, partial=True)
