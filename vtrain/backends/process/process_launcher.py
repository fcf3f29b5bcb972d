"""The backend `process`: replicas are processes on this machine, each under a shim."""

from __future__ import annotations

import os
import random
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from itertools import chain, repeat
from pathlib import Path

import msgspec
from msgspec.structs import replace

from vtrain.atomic import remove_folder
from vtrain.backends.local_plan import package_files
from vtrain.backends.process.process_buckets import HOST, buckets_folder, told_folder
from vtrain.backends.process.process_plan import environment_spec
from vtrain.errors import VtrainError
from vtrain.messages.custom_job import PythonPackageSpec, WorkerPoolSpec
from vtrain.privacy import make_private
from vtrain.retry import wait_until
from vtrain.runtime.debugging import CodePlaces, debugger_variables
from vtrain.runtime.environments.environment import make_environment, plan_environment
from vtrain.runtime.folder import METRIC_FILE, DamagedFileError, JobFolder, ReplicaFolder, require_struct
from vtrain.runtime.home import Home
from vtrain.runtime.inheritance import credentials_variables
from vtrain.runtime.job_order import JobOrder, ReplicaOrder, WarmSlot
from vtrain.runtime.job_storage import GS, keep_serving, storage_variables
from vtrain.runtime.launcher import Log, PrepareFailed, Runtime
from vtrain.runtime.locks import hold_lock, lock_holder
from vtrain.runtime.orphans import close_pipes, kill_orphans, open_pipes, salvage
from vtrain.runtime.process_tree import Process, identify, is_alive, signal_all
from vtrain.runtime.replica.vertex_view import (
    PRIMARY,
    JobContext,
    ReplicaId,
    module_argv,
    replica_environment,
    replica_ids,
)
from vtrain.runtime.spawning import spawn_holding

NAME = "process"
VISIBLE_DEVICES = "CUDA_VISIBLE_DEVICES"
NO_PROXY_VARIABLES = ("NO_PROXY", "no_proxy")
LOWEST_PORT = 20_000
"""Below it many programs have a port of their own."""
SPARE_PORTS = 100
"""Ports that are tried beyond twice the wanted number, in place of those in use."""
FIRST_DYNAMIC_PORT = 49_152
"""As the IANA has it, and macOS; Linux tells its own."""
SHIM_KILL_SECONDS = 4.0
"""The time for a shim to kill its replica, and to tell how that ended."""
UNREAD = "what it wrote last may be lost with the process that kept its lines"


class ProcessLauncher:
    """Replicas as processes: one shim each, one host and port each on the loopback."""

    name = NAME
    opens_work = False

    def __init__(self) -> None:
        self._pipes: dict[ReplicaFolder, dict[int, int]] = {}
        self._shims: dict[ReplicaFolder, Process] = {}
        self._asked: set[Process] = set()

    def needs_preparation(self, order: JobOrder) -> bool:
        return any(package_files(pool) for pool in order.job.job_spec.worker_pool_specs)

    def prepare(self, order: JobOrder, log: Log) -> tuple[Runtime, ...]:
        own = Home(Path(order.home)).job(order.name).path / "environments"
        made: dict[tuple[object, ...], Runtime] = {}
        pools = order.job.job_spec.worker_pool_specs
        for pool in pools:
            if _packaged(pool) not in made:
                made[_packaged(pool)] = _runtime(pool, order, own, log)
        return tuple(made[_packaged(pool)] for pool in pools)

    def begin(self, order: JobOrder) -> None:
        """Nothing: processes share this machine's network."""

    def replica_orders(
        self,
        order: JobOrder,
        folder: JobFolder,
        runtimes: tuple[Runtime, ...],
        devices: Mapping[str, tuple[str, ...]],
    ) -> dict[str, ReplicaOrder]:
        spec = order.job.job_spec
        context = job_context(order, free_ports(len(replica_ids(spec)) + 1))
        output = told_folder(spec.output_uri, Path(order.home))
        for name in ("model", "checkpoints", "logs") if output else ():
            Path(output, name).mkdir(parents=True, exist_ok=True)
        storage = storage_variables(folder, order.home, HOST) if order.setting.aip_dirs == GS else {}
        order = order.with_setting(variables=_with_storage(order.setting.variables, storage))
        gcs = buckets_folder(spec, Path(order.home), order.setting.aip_dirs)
        found = {}
        for member in context.hosts:
            replica = _replica_order(order, folder, member, context, runtimes[member.pool])
            own = with_devices(replica, _leased(order, member, devices))
            required = runtimes[member.pool].required
            # The interpreter's own start is what opens a terminal, a debugger, or /gcs.
            if order.claim.preload and required and not (gcs or order.terminal or order.debugger):
                own = _in_slot(own, order, required)
            elif order.claim.preload and order.setting.active_python:
                modules = ", ".join(order.claim.preload)
                note = f"{modules} cannot be kept imported for a trainer in your active Python."
                own = msgspec.structs.replace(own, start_note=note)
            found[member.name] = msgspec.structs.replace(own, gcs=gcs)
        return found

    def start(self, replica: ReplicaFolder) -> None:
        keep_serving(replica.job)
        # A replica that was touched is another shim's: two of them would run the trainer twice.
        lock = None if replica.touched else hold_lock(replica.lock)
        if lock is None:
            return
        slot = _slot_of(replica)
        child = _start_warm(replica, slot, lock) if slot is not None else _start_shim(replica, lock)
        self._shims[replica] = identify(child)

    def lives(self, replica: ReplicaFolder) -> bool:
        shim = self._shim(replica)
        if shim > 0 and replica not in self._pipes and replica.started():
            self._pipes[replica] = open_pipes(replica, shim)
        elif shim == 0 and replica.exit() is not None:
            close_pipes(self._pipes.pop(replica, {}))
        return shim != 0

    def outlived(self, replica: ReplicaFolder, moment: float) -> bool:  # noqa: ARG002 - shims write exits at once
        return True

    def stop(self, replica: ReplicaFolder) -> None:
        """Once for each shim, which passes it on once to each process: a handler is not interrupted again."""
        shim = self._shims.get(replica) if self._shim(replica) > 0 else None
        if shim is not None and shim not in self._asked:
            signal_all({shim}, signal.SIGTERM)
            self._asked.add(shim)

    def kill(self, replicas: Sequence[ReplicaFolder]) -> None:
        shims = {replica: self._shims[replica] for replica in replicas if self._shim(replica) > 0}
        signal_all({*shims.values()}, signal.SIGQUIT)  # each kills its replica, and tells how that ended
        wait_until(lambda: not any(map(self._shim, shims)), SHIM_KILL_SECONDS)
        signal_all({*shims.values()}, signal.SIGKILL)
        kill_orphans(replicas)

    def salvage(self, replica: ReplicaFolder) -> str:
        pipes = self._pipes.pop(replica, {})
        is_whole = bool(pipes) or not replica.started()
        try:
            salvage(replica, pipes)
        except DamagedFileError:
            return UNREAD
        return "" if is_whole else UNREAD

    def clear(self, order: JobOrder) -> str:
        try:
            remove_folder(Home(Path(order.home)).job(order.name).path / "environments")
        except OSError as error:
            return f"The job's copy of its environment could not be removed: {error.strerror}."
        return ""

    def _shim(self, replica: ReplicaFolder) -> int:
        """The process that watches over the replica; 0 for none, -1 for one that has not said its number.

        A trainer may remove the folder it works in, and the lock with it, or put something else in its place:
        then the shim is known from before.
        """
        shim = lock_holder(replica.lock)
        if shim > 0 and self._shims.get(replica, (0, 0))[0] != shim:
            self._shims[replica] = identify(shim)
        elif shim == 0 and replica in self._shims and not replica.lock.is_file():
            process = self._shims[replica]
            return process[0] if is_alive(process) else 0
        return shim


def job_context(order: JobOrder, ports: list[int]) -> JobContext:
    """The facts that all replicas share, given a free port for each and one for MASTER_PORT."""
    name = order.resource
    *own, master = ports
    home = Path(order.home)
    return JobContext(
        job_id=name.id,
        region=name.location,
        hosts={
            member: f"{HOST}:{port}"
            for member, port in zip(replica_ids(order.job.job_spec), own, strict=True)
        },
        master_port=master,
        output=told_folder(order.job.job_spec.output_uri, home, order.setting.aip_dirs),
        data=order.data
        and replace(order.data, uri=told_folder(order.data.uri, home, order.setting.aip_dirs)),
        trial_id=order.trial_id,
    )


def free_ports(count: int) -> list[int]:
    """Find `count` different ports that are free now, on all addresses of this machine.

    A trainer listens seconds later. So the ports are none of those that the kernel gives to programs which
    ask for any port, or which connect to somewhere, as long as there are others.
    """
    usual = range(LOWEST_PORT, _first_dynamic_port())
    ports: list[int] = []
    with ExitStack() as held:
        for port in chain(random.sample(usual, min(2 * count + SPARE_PORTS, len(usual))), repeat(0)):
            if len(ports) == count:
                break
            probe = held.enter_context(socket.socket())
            try:
                probe.bind(("", port))
            except OSError:
                if not port:
                    raise
                continue
            ports.append(probe.getsockname()[1])
    return ports


def _first_dynamic_port() -> int:
    """The first of the ports that the kernel gives to programs which ask for any."""
    try:
        return int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return FIRST_DYNAMIC_PORT


def with_devices(order: ReplicaOrder, uuids: tuple[str, ...] | None) -> ReplicaOrder:
    """The order of a replica that sees these GPUs and no others; with None, what its submitter sees."""
    if uuids is None:
        return order
    return msgspec.structs.replace(order, env=order.env | {VISIBLE_DEVICES: ",".join(uuids)})


def _with_storage(inherited: dict[str, str], storage: dict[str, str]) -> dict[str, str]:
    """The inherited variables and those of the job's Cloud Storage, which no proxy is asked for."""
    if not storage:
        return inherited
    direct = [inherited.get("no_proxy") or inherited.get("NO_PROXY", ""), HOST]
    return inherited | storage | dict.fromkeys(NO_PROXY_VARIABLES, ",".join(filter(None, direct)))


def _leased(
    order: JobOrder, member: ReplicaId, devices: Mapping[str, tuple[str, ...]]
) -> tuple[str, ...] | None:
    """The GPUs of a replica that asked for some: its own or, where there were too few, none."""
    machine = order.job.job_spec.worker_pool_specs[member.pool].machine_spec
    if order.claim.accelerators is None or machine is None:
        return None
    from vtrain.runtime.accelerators import gpu_count

    return devices.get(member.name, ()) if gpu_count(machine) else None


def _slot_of(replica: ReplicaFolder) -> WarmSlot | None:
    """The slot in which a replica may start with imported modules."""
    try:
        return require_struct(replica.path / "spec.json", ReplicaOrder).warm
    except DamagedFileError:
        return None  # its shim tells


def _start_warm(replica: ReplicaFolder, slot: WarmSlot, lock: int) -> int:
    """Start the replica's shim in its slot, else as usual, and the slot's process for the next; its id."""
    from vtrain.runtime.warm_slots import keep_warm, start_warm  # few jobs have a slot

    child = start_warm(replica, slot, lock)
    if child is None:
        child = _start_shim(replica, lock)
        keep_warm(slot)
    return child


def _start_shim(replica: ReplicaFolder, lock: int) -> int:
    shim = Path(__file__).parents[2] / "runtime" / "shim.py"
    # Isolated and without site-packages: it starts sooner, and the user's PYTHONPATH does not reach it.
    argv = [sys.executable, "-I", "-S", str(shim), str(replica.path)]
    return spawn_holding(lock, argv, dict(os.environ), replica.path / "shim.log")


def _in_slot(order: ReplicaOrder, job: JobOrder, required: str) -> ReplicaOrder:
    """The order of a replica whose resource keeps modules imported, by the interpreter `required`."""
    from vtrain.runtime.warm_slots import cold_note, warm_slot

    claim = job.claim
    most = sum(claim.slot_limits.values())
    slot = warm_slot(Path(job.home), claim.line, claim.preload, required, order.env, most)
    return msgspec.structs.replace(order, warm=slot, start_note=cold_note(slot) if slot else "")


def _packaged(pool: WorkerPoolSpec) -> tuple[object, ...]:
    """The key of a pool's environment: pools with equal keys share one."""
    return package_files(pool), pool.python_package_spec and pool.python_package_spec.executor_image_uri


def _runtime(pool: WorkerPoolSpec, order: JobOrder, own: Path, log: Log) -> Runtime:
    if not package_files(pool):
        return Runtime(python=sys.executable)
    home = Path(order.home)
    spec = environment_spec(
        pool,
        home,
        python=order.setting.python,
        downloads=order.setting.python_downloads,
        folder=order.command.folder if order.command is not None else "",
    )
    try:
        if order.setting.active_python:
            from vtrain.runtime.environments.active_python import unpack_packages

            site = unpack_packages(tuple(map(Path, spec.packages)), home, own, log)
            binaries = str(Path(order.setting.active_python).parent)
            return Runtime(python=order.setting.active_python, path_entries=(binaries,), site=str(site))
        made = make_environment(plan_environment(spec, home), log).copied_to(own)
    except VtrainError as failed:
        raise PrepareFailed(failed.message, failed.hint) from failed
    required = str(Path(made.path_entries[-1], "python"))
    return Runtime(python=made.python, path_entries=made.path_entries, required=required)


def _replica_order(
    order: JobOrder, folder: JobFolder, member: ReplicaId, context: JobContext, runtime: Runtime
) -> ReplicaOrder:
    spec = order.job.job_spec
    task = spec.worker_pool_specs[member.pool].python_package_spec
    assert isinstance(task, PythonPackageSpec)
    replica = folder.replica(member.name)
    env = {"PYTHONUNBUFFERED": "1"} | order.setting.variables | credentials_variables(order, folder)
    env["PATH"] = os.pathsep.join([*runtime.path_entries, env.get("PATH", os.defpath)])
    terminal = order.terminal
    if terminal is not None:
        env |= terminal.variables
        terminal = msgspec.structs.replace(terminal, fifo=str(folder.terminal_fifo))
    argv = module_argv(task, runtime.python)
    if order.debugger is not None and member == PRIMARY:
        argv = order.debugger.argv(task, runtime.python, HOST)
        libraries = next(Path(runtime.python).parents[1].glob("lib/python*"), Path("lib"))
        site = Path(runtime.site or libraries / "site-packages")
        places = CodePlaces(source=order.source_folder, installed=site, seen=str(site), cwd=str(replica.work))
        env |= debugger_variables(task, places)
    # Only what the primary reports counts: the others, on the same machine, do not write over it.
    reports = folder.metric_file if member == PRIMARY else replica.path / METRIC_FILE
    if order.trial_id:
        make_private(reports.parent)
    own = msgspec.structs.replace(context, metric_file=str(reports))
    env |= replica_environment(spec, member, own)
    if runtime.site:
        env["PYTHONPATH"] = os.pathsep.join(filter(None, (runtime.site, env.get("PYTHONPATH"))))
    return ReplicaOrder(
        task=member.name,
        argv=argv,
        env=env,
        log=str(folder.logs / member.name),
        wake=str(folder.wake_fifo),
        grace_seconds=order.grace_seconds,
        groups=replica.groups,
        terminal=terminal,
    )
