"""The backend `process`: replicas are processes on this machine, each under a shim."""

from __future__ import annotations

import os
import random
import re
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from itertools import chain, repeat
from pathlib import Path

from msgspec.structs import replace

from vtrain.atomic import remove_folder
from vtrain.backends.job_storage import GS, bundle_file, keep_serving, stop_serving, storage_variables
from vtrain.backends.process.process_runtimes import OWN_CODE, ready_runtimes
from vtrain.backends.process.process_world import HOST, buckets_folder, process_world, seen_folder
from vtrain.privacy import make_private
from vtrain.retry import wait_until
from vtrain.runtime.folder import DamagedFileError, JobFolder, ReplicaFolder, require_struct
from vtrain.runtime.home import Home
from vtrain.runtime.job_order import JobOrder, ReplicaOrder
from vtrain.runtime.launching import Log, Runtime
from vtrain.runtime.locks import hold_lock, lock_holder
from vtrain.runtime.machines import gpu_count
from vtrain.runtime.orphans import close_pipes, kill_orphans, open_pipes, salvage
from vtrain.runtime.process.process_tree import Process, identify, is_alive, signal_all
from vtrain.runtime.replica.replica_plan import ReplicaView, replica_views
from vtrain.runtime.replica.vertex_view import OUTPUT_FOLDERS, ReplicaId, replica_ids
from vtrain.runtime.spawning import spawn_holding

LOWEST_PORT, HIGHEST_PORT = 20_000, 32_000
"""Below, many programs have a port of their own; above, the kernel gives ports to those that ask for any."""
SPARE_PORTS = 100
"""Ports that are tried beyond twice the wanted number, in place of those in use."""
SHIM_KILL_SECONDS = 4.0
"""The time for a shim to kill its replica, and to tell how that ended."""
UNREAD = "what it wrote last may be lost with the process that kept its lines"

_HYPERTUNE = re.compile(rb"\b(?:from|import|import_module)\b[^#\n]{0,80}(?<![-\w])hypertune\b")
"""What imports it. A trainer that only names it may take CLOUD_ML_HP_METRIC_FILE for the sign of a trial."""


class ProcessLauncher:
    """Replicas as processes: one shim each, one host and port each on the loopback."""

    opens_work = False

    def __init__(self) -> None:
        self._pipes: dict[ReplicaFolder, dict[int, int]] = {}
        self._shims: dict[ReplicaFolder, Process] = {}
        self._asked: set[Process] = set()

    def ready(self, order: JobOrder, log: Log) -> tuple[Runtime, ...] | None:
        return ready_runtimes(order, log)

    def replica_orders(
        self,
        order: JobOrder,
        folder: JobFolder,
        runtimes: tuple[Runtime, ...],
        devices: Mapping[str, tuple[str, ...]],
    ) -> dict[str, ReplicaOrder]:
        spec, home, aip_dirs = order.job.job_spec, Path(order.home), order.setting.aip_dirs
        port = order.setting.emulator_port
        output = seen_folder(spec.output_uri, home)
        for name in OUTPUT_FOLDERS.values() if output else ():
            Path(output, name).mkdir(parents=True, exist_ok=True)
        master, *ports = free_ports(len(replica_ids(spec)) + 1)
        world = replace(
            process_world(order, folder, master, ports),
            storage=storage_variables(
                folder, order.home, HOST, bundle=str(bundle_file(folder)), emulator_port=port
            )
            if aip_dirs == GS
            else {},
            runtimes=runtimes,
            devices=_visible(order, devices),
            debugger_host=HOST,
        )
        if not (order.trial_id or _imports_hypertune(folder)):
            world = replace(world, metric_files={})
        gcs = buckets_folder(spec, home, aip_dirs)
        found = {}
        for view in replica_views(order, world):
            if view.member in world.metric_files:
                make_private(Path(world.metric_files[view.member]).parent)
            own = _replica_order(order, folder, view, gcs)
            required = runtimes[view.member.pool].required
            # The interpreter's own start is what opens a terminal, a debugger, or /gcs.
            if order.claim.preload and required and not (gcs or order.terminal or order.debugger):
                own = _in_slot(own, order, required)
            elif order.claim.preload and order.setting.active_python:
                modules = ", ".join(order.claim.preload)
                note = f"{modules} cannot be kept imported for a trainer in your active Python."
                own = replace(own, start_note=note)
            found[view.member.name] = own
        return found

    def start(self, replica: ReplicaFolder) -> None:
        keep_serving(replica.job)
        # A replica that was touched is another shim's: two of them would run the trainer twice.
        lock = None if replica.touched else hold_lock(replica.lock)
        if lock is None:
            return
        slot = child = None
        with suppress(DamagedFileError):  # its shim tells
            slot = require_struct(replica.path / "spec.json", ReplicaOrder).warm
        if slot is not None:  # which few jobs have
            from vtrain.runtime.warm_slots import keep_warm, start_warm

            child = start_warm(replica, slot, lock)
        if child is None:
            shim = Path(__file__).parents[2] / "runtime" / "process" / "shim.py"
            # Isolated and without site-packages: it starts sooner, and PYTHONPATH does not reach it.
            argv = [sys.executable, "-I", "-S", str(shim), str(replica.path)]
            child = spawn_holding(lock, argv, dict(os.environ), replica.path / "shim.log")
            if slot is not None:
                keep_warm(slot)  # for the next one
        self._shims[replica] = identify(child)

    def lives(self, replica: ReplicaFolder) -> bool:
        shim = self._shim(replica)
        if shim > 0 and replica not in self._pipes and replica.started():
            self._pipes[replica] = open_pipes(replica, shim)
        elif shim == 0 and replica.exit() is not None:
            close_pipes(self._pipes.pop(replica, {}))
        return shim != 0

    def outlived(self, replica: ReplicaFolder, moment: float) -> bool:
        end = replica.early_exit()  # which its shim stores at once
        return end is None or end.ended >= moment

    def stop(self, replica: ReplicaFolder) -> None:
        """Once for each shim, which passes it on once to each process: a handler is not interrupted again."""
        shim = self._shims.get(replica) if self._shim(replica) > 0 else None
        if shim is not None and shim not in self._asked:
            signal_all({shim}, signal.SIGTERM)
            self._asked.add(shim)

    def kill(self, replicas: Sequence[ReplicaFolder]) -> dict[ReplicaFolder, str]:
        # A shim that has just been started would die of the signal, or begin its trainer after it.
        wait_until(lambda: all(self._shim(each) >= 0 for each in replicas), SHIM_KILL_SECONDS)
        watched = [replica for replica in replicas if self._shim(replica) and replica in self._shims]
        shims = {replica: self._shims[replica] for replica in watched}
        signal_all({*shims.values()}, signal.SIGQUIT)  # each kills its replica, and tells how that ended
        wait_until(lambda: not any(map(self._shim, shims)), SHIM_KILL_SECONDS)
        signal_all({*shims.values()}, signal.SIGKILL)
        kill_orphans(replicas)
        wait_until(lambda: not any(map(self._shim, shims)), SHIM_KILL_SECONDS)
        left = [each for each in replicas if self._shim(each) == 0 and each.exit() is None]
        return {replica: UNREAD for replica in left if not self._salvage(replica)}

    def _salvage(self, replica: ReplicaFolder) -> bool:
        """Store the unread output of a replica whose shim is gone. False where some may be lost."""
        pipes = self._pipes.pop(replica, {})
        is_whole = bool(pipes) or not replica.touched  # its shim starts the trainer before it says so
        try:
            salvage(replica, pipes)
        except DamagedFileError:
            return False
        return is_whole

    def clear(self, order: JobOrder) -> str:
        folder = Home(Path(order.home)).job(order.name)
        stop_serving(folder)
        try:
            remove_folder(folder.path / OWN_CODE)
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


def free_ports(count: int) -> list[int]:
    """Find `count` different ports that are free now, on all addresses of this machine.

    A trainer listens seconds later. So the ports are below those that the kernel gives to programs which ask
    for any port, or which connect to somewhere, as long as there are others; a kernel whose range is set to
    begin below `HIGHEST_PORT` may give them away.
    """
    usual = range(LOWEST_PORT, HIGHEST_PORT)
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


def _visible(order: JobOrder, devices: Mapping[str, tuple[str, ...]]) -> dict[ReplicaId, tuple[str, ...]]:
    """The GPUs of the replicas that asked for some: their own or, where there were too few, none."""
    if order.claim.accelerators is None:
        return {}
    spec = order.job.job_spec
    machines = [pool.machine_spec for pool in spec.worker_pool_specs]
    counts = [gpu_count(machine) if machine is not None else 0 for machine in machines]
    return {member: devices.get(member.name, ()) for member in replica_ids(spec) if counts[member.pool]}


def _in_slot(order: ReplicaOrder, job: JobOrder, required: str) -> ReplicaOrder:
    """The order of a replica whose resource keeps modules imported, by the interpreter `required`."""
    from vtrain.runtime.warm_slots import cold_note, warm_slot

    claim = job.claim
    most = sum(claim.slot_limits.values())
    slot = warm_slot(Path(job.home), claim.line, claim.preload, required, order.env, most)
    return replace(order, warm=slot, start_note=cold_note(slot) if slot else "")


def _replica_order(order: JobOrder, folder: JobFolder, view: ReplicaView, gcs: str) -> ReplicaOrder:
    terminal, name = order.terminal, view.member.name
    return ReplicaOrder(
        task=name,
        argv=view.argv,
        env=view.env,
        log=str(folder.logs / name),
        wake=str(folder.wake_fifo),
        grace_seconds=order.grace_seconds,
        gcs=gcs,
        groups=folder.replica(name).groups,
        terminal=replace(terminal, fifo=str(folder.terminal_fifo)) if terminal is not None else None,
    )


def _imports_hypertune(folder: JobFolder) -> bool:
    """Whether the trainer's code does, which would write below /tmp, over what other jobs report there."""
    files = (folder.path / OWN_CODE).rglob("*")
    programs = (file for file in files if file.suffix in (".py", ".ipynb") and file.is_file())
    return any(_HYPERTUNE.search(file.read_bytes()) for file in programs)
