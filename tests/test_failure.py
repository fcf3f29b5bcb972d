"""Why it failed, read from text."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import pytest

from vtrain.failure import NamedBy, folded, hint, last_traceback, meaning
from vtrain.program_output import TRACEBACK_HEAD


def run(tmp_path: Path, code: str) -> str:
    (tmp_path / "train.py").write_text(code)
    done = subprocess.run(
        [sys.executable, "-m", "train"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    return done.stderr


def test_a_real_traceback(tmp_path: Path) -> None:
    code = "import json\n\ndef load():\n    return json.loads('{')\n\nload()\n"
    found = last_traceback("some line\n" + run(tmp_path, code) + "a line after\n")
    assert found is not None
    assert found.lines[0] == "Traceback (most recent call last):"
    assert found.lines[-1] == found.exception
    assert found.exception.startswith("json.decoder.JSONDecodeError: ")
    assert (found.file, found.line) == (str(tmp_path / "train.py"), 4)


def test_a_chained_traceback_is_whole(tmp_path: Path) -> None:
    code = "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise RuntimeError('in vain') from e\n"
    old = 'Traceback (most recent call last):\n  File "old.py", line 1\nOldError: x\nhello\n'
    found = last_traceback(old + run(tmp_path, code))
    assert found is not None
    text = "\n".join(found.lines)
    assert "OldError" not in text
    assert "ZeroDivisionError: division by zero\n\nThe above exception was the direct cause" in text
    assert (found.exception, found.line) == ("RuntimeError: in vain", 4)


def test_during_handling(tmp_path: Path) -> None:
    found = last_traceback(run(tmp_path, "try:\n    1 / 0\nexcept ZeroDivisionError:\n    {}['key']\n"))
    assert found is not None
    assert found.exception == "KeyError: 'key'"
    assert sum(line.startswith("Traceback") for line in found.lines) == 2


IGNORED = {
    "atexit": "import atexit\natexit.register(lambda: 1 / 0)\n",
    "destructor": "class Loader:\n    def __del__(self):\n        1 / 0\nloader = Loader()\n",
}


@pytest.mark.parametrize("ignored", IGNORED.values(), ids=IGNORED)
def test_an_exception_that_python_ignores_is_no_cause(tmp_path: Path, ignored: str) -> None:
    text = run(tmp_path, f"{ignored}raise RuntimeError('the cause')\n")
    assert "ignored" in text and "ZeroDivisionError" in text.partition("the cause")[2]
    found = last_traceback(text)
    assert found is not None
    assert found.exception == "RuntimeError: the cause"
    assert "ignored" not in "\n".join(found.lines)
    assert last_traceback(run(tmp_path, f"{ignored}raise SystemExit(3)\n")) is None


def test_the_name_of_an_exception_may_have_any_letters(tmp_path: Path) -> None:
    found = last_traceback(
        run(tmp_path, "class Größenfehler(Exception): pass\nraise Größenfehler('zu groß')\n")
    )
    assert found is not None
    assert found.exception.endswith("Größenfehler: zu groß")


def test_syntax_errors_and_messages_of_several_lines(tmp_path: Path) -> None:
    found = last_traceback(run(tmp_path, "import broken\n") + "tail\n")
    assert found is not None
    assert found.lines[-1].startswith("ModuleNotFoundError")
    (tmp_path / "broken.py").write_text("x = (\n")
    found = last_traceback(run(tmp_path, "import broken\n"))
    assert found is not None
    assert found.exception.startswith("SyntaxError")
    assert found.file == str(tmp_path / "broken.py")


def test_an_installed_trainer_is_ones_own_code() -> None:
    found = last_traceback(
        "Traceback (most recent call last):\n"
        '  File "/usr/lib/python3.10/runpy.py", line 196, in _run_module_as_main\n'
        '  File "/env/lib/python3.10/site-packages/trainer/task.py", line 7, in <module>\n'
        '  File "/env/lib/python3.10/site-packages/trainer/data.py", line 9, in load\n'
        '  File "/deps/lib/python3.10/site-packages/numpy/core.py", line 99, in f\n'
        "ValueError: bad shape\n"
    )
    assert found is not None
    assert (found.file, found.line) == ("/env/lib/python3.10/site-packages/trainer/data.py", 9)


def test_prefixed_lines() -> None:
    found = last_traceback(
        '[rank0]: Traceback (most recent call last):\n[rank0]:   File "t.py", line 3\n[rank0]: E: x\n'
    )
    assert found is not None
    assert found.lines == ("Traceback (most recent call last):", '  File "t.py", line 3', "E: x")
    assert (found.exception, found.file, found.line) == ("E: x", "t.py", 3)


def test_exception_groups() -> None:
    found = last_traceback(
        "  + Exception Group Traceback (most recent call last):\n"
        '  |   File "/src/train.py", line 3, in <module>\n'
        "  | ExceptionGroup: several (2 sub-exceptions)\n"
        "  +-+---------------- 1 ----------------\n"
        "    | ValueError: 1\n"
        "    +------------------------------------\n"
    )
    assert found is not None
    assert found.exception == "ExceptionGroup: several (2 sub-exceptions)"
    assert (found.file, found.line, len(found.lines)) == ("/src/train.py", 3, 6)


@pytest.mark.parametrize("text", ["", "no traceback", "Traceback (most recent call"])
def test_nothing_to_find(text: str) -> None:
    assert last_traceback(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "Traceback (most recent call last):",
        "Traceback (most recent call last):\n  File",
        "\nTraceback (most recent call last):\n\n",
    ],
)
def test_a_torn_traceback_is_survived(text: str) -> None:
    found = last_traceback(text)
    assert found is not None
    assert found.exception == ""


def test_meanings() -> None:
    for code in (1, 2, 126, 127, 130, 134, 137, 139, 143):
        assert meaning(code)
    assert "SIGKILL" in meaning(137)
    assert meaning(138).endswith(("SIGUSR1", "SIGBUS"))
    assert meaning(7) == "an error that the trainer itself chose to end with"


@pytest.mark.parametrize(
    ("text", "code", "expected"),
    [
        ("ModuleNotFoundError: No module named 'sklearn'", 1, "Add scikit-learn to"),
        ("ModuleNotFoundError: No module named 'pandas.core'", 1, "Add pandas to"),
        ("ModuleNotFoundError: No module named 'google.cloud.storage'", 1, "Add google-cloud-storage to"),
        ("ModuleNotFoundError: No module named 'hydra.core'", 1, "Add hydra-core to what"),
        ("ModuleNotFoundError: No module named 'model'", 1, "Add the package that brings `model` to"),
        ("FileNotFoundError: [Errno 2] No such file or directory: 'gs://b/x.csv'", 1, "/gcs/b/x.csv"),
        ("touch: cannot touch '/d/x': Read-only file system", 1, "without `readonly`"),
        ("FileNotFoundError: [Errno 2] No such file or directory: '/gcs/b/x.csv'", 1, "--backend=docker"),
        ("MemoryError", 1, "smaller batches"),
        ("", 137, "dmesg"),
        ("torch.cuda.OutOfMemoryError: CUDA out of memory. Tried", 1, "GPU's memory"),
        ("RuntimeError: Found no NVIDIA driver on your system", 1, "CPU"),
        ("OSError: [Errno 98] Address already in use", 1, "CLUSTER_SPEC"),
        ("RuntimeError: CUDA error: device-side assert triggered", 1, ""),
        ("RuntimeError: cuDNN error: CUDNN_STATUS_BAD_PARAM", 1, ""),
        ("AssertionError: Torch not compiled with CUDA enabled", 1, "CPU"),
        ("task.py: error: unrecognized arguments: --x", 2, "--args"),
        ("PermissionError: [Errno 13] Permission denied: '/model'", 1, "AIP_MODEL_DIR"),
        ("PermissionError: [Errno 13] Permission denied: 'model.pt'", 1, "into the working directory"),
        ("OSError: [Errno 30] Read-only file system: 'data/cache.csv'", 1, "into the working directory"),
        ("OSError: [Errno 30] Read-only file system: '/data/cache.csv'", 1, "without `readonly`"),
        (
            "FileNotFoundError: [Errno 2] No such file or directory: 'config/a.yaml'",
            1,
            "Path(__file__).parent",
        ),
        ("FileNotFoundError: [Errno 2] No such file or directory: '/data/a.yaml'", 1, ""),
        (
            "FileNotFoundError: [Errno 2] No such file or directory: '/e/python3.11/site-packages/app/a.csv'",
            1,
            "app/a.csv is not installed. If it is a file of the trainer, its build leaves it out",
        ),
        ("FileNotFoundError: [Errno 2] No such file or directory: 'gs://b/x.csv'", 1, "--aip-dirs=local"),
        ("ValueError: URI scheme must be gs", 1, "--aip-dirs=gs"),
        ("ValueError: URI pattern must be gs://bucket/object", 1, "--aip-dirs=gs"),
        ("google.auth.exceptions.DefaultCredentialsError: none were found", 1, "--aip-dirs=gs"),
        (
            "tensorflow.python.framework.errors_impl.PermissionDeniedError: Error executing an HTTP request: "
            "HTTP response code 401 with body '' when initiating an upload to gs://b/model",
            1,
            "--aip-dirs=local",
        ),
        ("usage: task.py [-h]\ntask.py: error: no", 2, "--args"),
        ("Usage: task [OPTIONS]\nTry 'task --help' for help.\n", 2, "--args"),
        ("train.sh: line 3: syntax error near unexpected token `fi\r'", 2, "Windows line ends"),
        ("train.sh: line 5: syntax error: unexpected end of file", 2, "Windows line ends"),
        ("/w/train.sh: line 2: $'\\r': command not found", 127, "Windows line ends"),
        ("train.sh: line 2: cd: data\r: No such file or directory", 1, "Windows line ends"),
        ("train.sh: line 2: cd: data: No such file or directory\r\n", 1, ""),  # of a terminal
        ("grep: nothing: No such file or directory", 2, ""),
        ("", 2, ""),
        ("bdb.BdbQuit", 1, "--interactive"),
        ("EOFError: EOF when reading a line", 1, "--interactive"),
        ("ValueError: {curly}", 1, ""),
        ("", 7, ""),
    ],
)
def test_hints(text: str, code: int, expected: str) -> None:
    given = hint(text, code)
    assert expected in given
    assert bool(given) == bool(expected)


@pytest.mark.parametrize(
    ("named_by", "expected"),
    [
        (NamedBy.FLAGS, "or give --requirements=scikit-learn."),
        (NamedBy.POOL, "or requirements=scikit-learn to --worker-pool-spec."),
        (NamedBy.OTHER, "or to its image."),
        (NamedBy.ENVIRONMENT, "then vtrain makes an environment of these alone."),
    ],
)
def test_the_hint_of_a_missing_module_names_the_flags_that_were_typed(
    named_by: NamedBy, expected: str
) -> None:
    assert hint("ModuleNotFoundError: No module named 'sklearn'", 1, named_by).endswith(expected)


class Sample(NamedTuple):
    """A program, and what it wrote to stderr when a version of Python ran it as /src/NAME.py."""

    name: str
    version: str
    code: str
    text: str
    exception: str
    line: int
    heads: int


def _samples() -> list[Sample]:
    told = json.loads(Path(__file__).with_name("tracebacks.json").read_text())
    return [
        Sample(one["name"], version, one["code"], text, one["exception"], one["line"], one["heads"])
        for one in told
        for version, text in one["runs"].items()
    ]


SAMPLES = _samples()


@pytest.mark.parametrize("sample", SAMPLES, ids=[f"{s.name}-{s.version}" for s in SAMPLES])
@pytest.mark.parametrize("prefix", ["", "[rank0]: "])
def test_real_tracebacks_keep_their_exception(sample: Sample, prefix: str) -> None:
    text = "".join(f"{prefix}{line}\n" for line in sample.text.splitlines())
    found = last_traceback(f"before\n{text}after\n")
    assert found is not None
    assert (found.exception, found.file, found.line) == (
        sample.exception,
        f"/src/{sample.name}.py",
        sample.line,
    )
    assert sum(TRACEBACK_HEAD in line for line in found.lines) == sample.heads
    assert any(line.strip("| ").startswith(sample.exception) for line in found.lines)
    assert not any(line.startswith(("before", "after", "[rank0]")) for line in found.lines)


def test_this_python_writes_what_the_samples_show(tmp_path: Path) -> None:
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    for sample in (sample for sample in SAMPLES if sample.version == version):
        found = last_traceback(run(tmp_path, sample.code))
        assert found is not None
        assert (found.exception, found.line) == (sample.exception, sample.line), sample.name


DATA_LOADER = """Traceback (most recent call last):
  File "/src/trainer/task.py", line 30, in <module>
    for batch in loader:
  File "/env/lib/python3.11/site-packages/torch/utils/data/dataloader.py", line 630, in __next__
    data = self._next_data()
           ^^^^^^^^^^^^^^^^^
  File "/env/lib/python3.11/site-packages/torch/_utils.py", line 694, in reraise
    raise exception
KeyError: Caught KeyError in DataLoader worker process 0.
Original Traceback (most recent call last):
  File "/env/lib/python3.11/site-packages/torch/utils/data/_utils/worker.py", line 308, in _worker_loop
    data = fetcher.fetch(index)
           ^^^^^^^^^^^^^^^^^^^^
  File "/src/trainer/data.py", line 12, in __getitem__
    return self.rows[index]
^^^^^^~~~~~~~
KeyError: 7

"""
"""As torch raises an error of a worker process once more, the carets moved by whoever took the text apart."""


@pytest.mark.parametrize("prefix", ["", "[rank0]: "])
def test_what_a_data_loader_raises_once_more(prefix: str) -> None:
    text = "".join(f"{prefix}{line}\n" for line in DATA_LOADER.splitlines())
    found = last_traceback(text)
    assert found is not None
    assert (found.exception, found.file, found.line) == ("KeyError: 7", "/src/trainer/data.py", 12)
    assert found.lines[0] == "Traceback (most recent call last):"
    assert "KeyError: Caught KeyError in DataLoader worker process 0." in found.lines
    assert found.lines[-2:] == ("^^^^^^~~~~~~~", "KeyError: 7")
    alone = last_traceback(text.partition("worker process 0.\n")[2])
    assert alone is not None
    assert (alone.exception, alone.lines[0]) == ("KeyError: 7", "Traceback (most recent call last):")


def test_a_class_inside_a_function_is_an_exception() -> None:
    found = last_traceback(f'{TRACEBACK_HEAD}\n  File "/t.py", line 1\nt.f.<locals>.Lost: gone\n')
    assert found is not None
    assert found.exception == "t.f.<locals>.Lost: gone"


@pytest.mark.parametrize("words", ["", "  + Exception Group ", "Original ", "[rank0]: ", "  x\n^^^\n"])
def test_any_number_of_lines_is_read_in_linear_time(words: str) -> None:
    text = f"{TRACEBACK_HEAD}\n" + f"{words}{TRACEBACK_HEAD}\n" * 50_000
    begun = time.process_time()
    last_traceback(text)
    assert time.process_time() - begun < 20


FOREIGN_FRAMES = """Traceback (most recent call last):
  File "<frozen runpy>", line 198, in _run_module_as_main
  File "<frozen runpy>", line 88, in _run_code
  File "/src/task.py", line 3, in <module>
    fit()
    ~~~^^
  File "/env/lib/python3.12/site-packages/sklearn/base.py", line 7, in fit
    return method()
  File "/env/lib/python3.12/site-packages/numpy/core/a.py", line 8, in f
    return callback()
           ^^^^^^^^^^
  File "/src/task.py", line 9, in callback
    json.loads(text)
  File "/usr/lib/python3.12/json/decoder.py", line 355, in raw_decode
ValueError: of
  two lines"""


def test_frames_of_the_library_and_of_dependencies_are_folded() -> None:
    assert folded(FOREIGN_FRAMES.splitlines(), "/src/task.py") == [
        "Traceback (most recent call last):",
        '  File "/src/task.py", line 3, in <module>',
        "    fit()",
        "    ~~~^^",
        "  … 2 frames in sklearn, numpy",
        '  File "/src/task.py", line 9, in callback',
        "    json.loads(text)",
        "  … 1 frame in json",
        "ValueError: of",
        "  two lines",
    ]


def test_frames_of_compiled_files_are_folded_and_are_not_the_trainers() -> None:
    text = """Traceback (most recent call last):
  File "/src/task.py", line 3, in <module>
    df["nope"]
  File "pandas/_libs/index.pyx", line 201, in pandas._libs.index.IndexEngine.get_loc
  File "pandas/_libs/hashtable_class_helper.pxi", line 7734, in pandas._libs.hashtable.get_item
KeyError: 'nope'"""
    found = last_traceback(text)
    assert found is not None and (found.file, found.line) == ("/src/task.py", 3)
    assert folded(found.lines, found.file)[3:] == ["  … 2 frames in pandas", "KeyError: 'nope'"]


def test_without_a_frame_of_the_trainer_nothing_is_folded_but_an_installed_trainer_is_its_own() -> None:
    head, _, _, *others = FOREIGN_FRAMES.splitlines()
    assert folded(FOREIGN_FRAMES.splitlines(), "") == [head, *others]
    installed = FOREIGN_FRAMES.replace("/src/task.py", "/env/lib/python3.12/site-packages/trainer/task.py")
    shown = folded(installed.splitlines(), "/env/lib/python3.12/site-packages/trainer/data.py")
    assert [line for line in shown if "…" in line] == [
        "  … 2 frames in sklearn, numpy",
        "  … 1 frame in json",
    ]
