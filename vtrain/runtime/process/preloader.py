"""Keeps modules imported for the replicas of a slot: `PYTHON preloader.py FOLDER KEY MODULE... LOCK`.

It runs in the interpreter of an environment's dependencies, with the variables of the jobs that it is for.
For each request on FOLDER/KEY.socket it forks a child, which becomes the shim of that replica; the trainer is
a fork of the shim. Both have the modules imported already, and nothing of another job: no job's code ever
runs in this process itself. It ends when its lock file is removed, or when no job has come for an hour.
Standard library only, as the shim.
"""

# ruff: noqa: PTH100, PTH108, PTH109, PTH116, PTH118, PTH120, PTH123, PTH208, SIM115 - as in the shim

from __future__ import annotations

import sys

_OWN_FOLDER = __file__.rpartition("/")[0]
# The modules beside this one have names that a trainer's may have.
sys.path[:] = [entry for entry in sys.path if entry != _OWN_FOLDER]

import builtins  # noqa: E402
import gc  # noqa: E402
import importlib  # noqa: E402
import io  # noqa: E402
import json  # noqa: E402
import os  # noqa: E402
import runpy  # noqa: E402
import select  # noqa: E402
import signal  # noqa: E402
import site  # noqa: E402
import socket  # noqa: E402
import sysconfig  # noqa: E402
import threading  # noqa: E402
import time  # noqa: E402
import traceback  # noqa: E402
import types  # noqa: E402
from contextlib import suppress  # noqa: E402

TICK_SECONDS = 1.0
"""How soon it notices that its lock file was removed."""
IDLE_SECONDS = 3600.0
"""It ends when nobody has asked for so long; the next job starts another."""
REQUEST_SECONDS = 5.0
"""The longest time for a request to arrive, and for the supervisor to say that it still wants the child."""
MOST_BYTES = 65536
WANTED = b"+"
REASON = "reason"
"""The ending of the file that says why modules cannot be kept imported."""
SHIM_MODULES = ("shim", "cgroup", "exit_report", "journal", "process_tree")
"""The modules of this folder that the shim imports."""


class Become(BaseException):
    """Leaves the shim's frames behind: the process goes on as the trainer of this order."""

    def __init__(self, spec: dict) -> None:  # type: ignore[type-arg]
        super().__init__()
        self.spec = spec


class PreloadedScript(BaseException):
    """Leaves the frames of a package's launcher behind: the process goes on as `python PATH ARGS`."""

    def __init__(self, path: str, roots: list[str]) -> None:
        super().__init__()
        self.path = path
        self.roots = roots


def main(folder: str, key: str, modules: list[str], lock: int) -> None:
    """Import, then answer requests until the lock file is gone."""
    os.set_inheritable(lock, False)
    os.pwrite(lock, str(os.getpid()).encode(), 0)
    library = own_library()
    why = import_all(modules)
    if why:
        with open(f"{folder}/{key}.{REASON}", "w") as file:
            file.write(why)
        return
    gc.collect()
    gc.freeze()  # a collection in a child would write to the pages that it shares with this process
    kept = open_descriptors() - {lock}
    spec = Preloader(folder, key, modules, lock).serve()
    if spec is not None:
        become_trainer(spec, kept, library)


class Preloader:
    """The process with the modules. `serve` comes back in the trainers that it has become, and at its end."""

    def __init__(self, folder: str, key: str, modules: list[str], lock: int) -> None:
        self._lock_path = f"{folder}/{key}.lock"
        self._modules = modules
        self._lock = lock
        self._listener = listen(folder, key)

    def serve(self) -> dict | None:  # type: ignore[type-arg]
        """Fork a shim for each request. The order of a replica, in the fork that goes on as its trainer."""
        asked = time.monotonic()
        while self._is_wanted() and time.monotonic() - asked < IDLE_SECONDS:
            if select.select([self._listener], [], [], TICK_SECONDS)[0]:
                spec, asked = self._answer(), time.monotonic()
                if spec is not None:
                    return spec
            with suppress(ChildProcessError):  # shims that have ended
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
        return None

    def _is_wanted(self) -> bool:
        """Whether the lock file is still the one that this process holds."""
        try:
            return os.path.samestat(os.stat(self._lock_path), os.fstat(self._lock))
        except OSError:
            return False

    def _answer(self) -> dict | None:  # type: ignore[type-arg]
        connection, _ = self._listener.accept()
        connection.settimeout(REQUEST_SECONDS)
        try:
            data, received, _, _ = socket.recv_fds(connection, MOST_BYTES, 2)
        except OSError:
            data, received = b"", []
        is_request = data and len(received) == 2
        if not is_request or os.fork():
            for descriptor in received:
                os.close(descriptor)
            connection.close()
            return None
        try:
            self._watch(connection, data.decode(), *received)
        except Become as begun:
            return begun.spec
        except BaseException:  # a child never goes on as what it was forked from
            traceback.print_exc()
        os._exit(1)

    def _watch(self, connection: socket.socket, folder: str, lock: int, log: int) -> None:
        """Be the shim of the replica in that folder, once the supervisor says that it still wants it."""
        os.setsid()
        self._listener.close()
        os.close(self._lock)
        empty = os.open(os.devnull, os.O_RDONLY)
        for source, target in ((empty, 0), (log, 1), (log, 2)):
            os.dup2(source, target)
        os.close(empty)
        os.close(log)
        connection.sendall(str(os.getpid()).encode())
        if connection.recv(1) != WANTED:
            os._exit(0)
        connection.close()
        with open(f"{folder}/spec.json", "rb") as file:
            spec = json.load(file)
        spec["start_note"] = f"{spec['task']} started with {', '.join(self._modules)} imported already."
        import_shim().Shim(folder, spec, go_on_as).run(lock)
        os._exit(0)


def go_on_as(spec: dict) -> None:  # type: ignore[type-arg]
    """Take the place of `exec` in the shim's child."""
    raise Become(spec)


def own_library() -> list[str]:
    """The entries of sys.path for the standard library, and those of PYTHONPATH before them."""
    packages = {sysconfig.get_path(name) for name in ("purelib", "platlib")}
    first = next((n for n, entry in enumerate(sys.path) if entry in packages), len(sys.path))
    return sys.path[:first]


def import_all(modules: list[str]) -> str:
    """Import the modules; why they cannot be kept imported, or nothing."""
    if not hasattr(socket, "recv_fds"):
        return "that needs Python 3.9 or newer"
    for module in modules:
        try:
            importlib.import_module(module)
        except BaseException as error:  # whatever a module does when it is imported
            return f"{type(error).__name__}: {error}".splitlines()[0][:500]
    if threading.active_count() > 1:
        return "its import starts threads, which a fork would lose"
    return ""


def open_descriptors() -> set[int]:
    """The descriptors of this process; those that the modules have opened belong to them."""
    found = set()
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # the one that lists the folder
            os.fstat(int(name))
            found.add(int(name))
    return found


def listen(folder: str, key: str) -> socket.socket:
    """The socket of requests, in a folder that only this user may enter."""
    listener = socket.socket(socket.AF_UNIX)
    held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    # The name of a socket has at most 107 bytes, and that of a home may have more.
    path = f"/proc/self/fd/{held}/{key}.socket"
    with suppress(FileNotFoundError):
        os.unlink(path)
    listener.bind(path)
    os.close(held)
    listener.listen(64)
    return listener


def import_shim() -> types.ModuleType:
    """The shim's module, with those that it imports: they leave no trace in sys.modules and sys.path."""
    known, path = set(sys.modules), list(sys.path)
    hidden = {name: sys.modules.pop(name) for name in SHIM_MODULES if name in sys.modules}
    sys.path.insert(0, _OWN_FOLDER)
    try:
        return importlib.import_module("shim")
    finally:
        sys.path[:] = path
        for name in set(sys.modules) - known | set(SHIM_MODULES) & set(sys.modules):
            if os.path.dirname(getattr(sys.modules[name], "__file__", None) or "") == _OWN_FOLDER:
                del sys.modules[name]
        sys.modules.update(hidden)


def become_trainer(spec: dict, kept: set[int], library: list[str]) -> None:  # type: ignore[type-arg]
    """Run the trainer's module as `python -m MODULE ARGS` would, in this process."""
    for descriptor in open_descriptors() - kept - {0, 1, 2}:
        with suppress(OSError):
            os.close(descriptor)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGQUIT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(spec["env"])
    python, _, module, *arguments = spec["argv"]
    use_environment(python, library)
    open_streams()
    draw_numbers_anew()
    sys.argv = ["-m", *arguments]
    sys.orig_argv = list(spec["argv"])
    sys.excepthook = print_without_own_frames
    sys.vtrain_run_script = run_script  # type: ignore[attr-defined]
    sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        runpy._run_module_as_main(module)  # type: ignore[attr-defined] # what `-m` calls
    except PreloadedScript as begun:
        script = begun
    else:
        return
    become_script(script, arguments, library)


def run_script(path: str, roots: list[str]) -> None:
    """Run a Python script in place of the module that calls this; `roots` are searched first for imports."""
    raise PreloadedScript(path, roots)


def become_script(script: PreloadedScript, arguments: list[str], library: list[str]) -> None:
    """Run a script as `python PATH ARGS` would, in this process."""
    path = os.path.abspath(script.path)
    sys.argv = [script.path, *arguments]
    sys.orig_argv = [sys.executable, *sys.argv]
    packages = sys.path[len(library) + 1 :]
    sys.path[:] = [os.path.dirname(path), *script.roots, *library, *packages]
    main = types.ModuleType("__main__")
    main.__file__ = path
    main.__builtins__ = builtins  # type: ignore[attr-defined]
    sys.modules["__main__"] = main
    with open(path, "rb") as file:
        source = file.read()
    exec(compile(source, path, "exec"), main.__dict__)


def use_environment(python: str, library: list[str]) -> None:
    """Import from the replica's own environment, as its interpreter would."""
    prefix = os.path.dirname(os.path.dirname(python))
    shared = sys.prefix
    sys.executable = python
    sys.prefix = sys.exec_prefix = prefix
    site.PREFIXES[:] = [prefix if entry == shared else entry for entry in site.PREFIXES]
    sys.path[:] = library if getattr(sys.flags, "safe_path", False) else [os.getcwd(), *library]
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    site.addsitedir(os.path.join(prefix, "lib", name, "site-packages"))
    importlib.invalidate_caches()
    if "multiprocessing.spawn" in sys.modules:
        sys.modules["multiprocessing.spawn"].set_executable(python)


def open_streams() -> None:
    """The three streams as Python makes them at its start."""
    is_unbuffered = bool(os.environ.get("PYTHONUNBUFFERED"))
    for name, number, mode in (("stdin", 0, "r"), ("stdout", 1, "w"), ("stderr", 2, "w")):
        old = getattr(sys, name)
        is_direct = is_unbuffered and mode == "w"
        buffer = open(number, f"{mode}b", buffering=0 if is_direct else -1, closefd=False)
        setattr(getattr(buffer, "raw", buffer), "name", f"<{name}>")  # noqa: B010 - typed as read-only
        stream = io.TextIOWrapper(
            buffer,
            encoding=old.encoding,
            errors=old.errors,
            newline=None if mode == "r" else "\n",
            line_buffering=name == "stderr" and not is_unbuffered,
            write_through=is_unbuffered,
        )
        stream.mode = mode  # type: ignore[misc]
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def draw_numbers_anew() -> None:
    """Seed the generators of random numbers, as a start of Python would: each fork has the same state.

    Python itself does that for its own generator.
    """
    if "numpy.random" in sys.modules:
        sys.modules["numpy.random"].seed()
    if "torch" in sys.modules:
        sys.modules["torch"].default_generator.seed()


def print_without_own_frames(
    kind: type[BaseException], error: BaseException, trace: types.TracebackType | None
) -> None:
    """Show an error as Python does where it was started with the trainer."""
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    sys.__excepthook__(kind, error.with_traceback(trace), trace)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:-1], int(sys.argv[-1]))
