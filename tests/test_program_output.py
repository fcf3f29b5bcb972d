"""The part of a program's output that says why it failed."""

from __future__ import annotations

import pytest

from vtrain.program_output import MOST_LINES, reason, reason_line

HATCHLING = """\
Using Python 3.11.7 environment at: /v
Resolved 1 package in 1ms
error: Failed to build `churn-model @ file:///h`
  cause: The build backend returned an error
  cause: Call to `hatchling.build.build_wheel` failed (exit status: 1)

         [stderr]
         Traceback (most recent call last):
           File "<string>", line 11, in <module>
           File "/b/hatchling/builders/wheel.py", line 281, in default_file_selection_options
             raise ValueError(message)
         ValueError: Unable to determine which files to ship inside the wheel

         The most likely cause of this is that there is no directory that matches the name of your project.

         At least one file selection option must be defined in the `tool.hatch.build.targets.wheel` table.

         As an example, if you intend to ship a directory named `foo`, you can define the following:

         [tool.hatch.build.targets.wheel]
         packages = ["src/foo"]

hint: Build failures usually indicate a problem with the package or the build environment
"""
ADVICE = "".join(f"advice line {number}\n" for number in range(12))
OF_UV_BUILD = f"""\
Traceback (most recent call last):
  File "<string>", line 3, in <module>
RuntimeError: please install libfoo first
{ADVICE}error: Failed to build `/s`
  cause: The build backend returned an error
  cause: Call to `setuptools.build_meta:__legacy__.get_requires_for_build_wheel` failed (exit status: 1)
"""
OF_PIP = f"""\
  error: subprocess-exited-with-error

  × python setup.py egg_info did not run successfully.
  │ exit code: 1
  ╰─> [20 lines of output]
      Traceback (most recent call last):
        File "setup.py", line 3, in <module>
      RuntimeError: please install libfoo first
{"".join(f"      advice line {number}" + chr(10) for number in range(12))}      [end of output]

  note: This error originates from a subprocess, and is likely not a problem with pip.
error: metadata-generation-failed

× Encountered error while generating package metadata.
╰─> See above for output.

note: This is an issue with the package mentioned above, not pip.
hint: See above for details.
"""
SKLEARN = f"""\
error: Failed to build `sklearn==0.0.post12`
  cause: The build backend returned an error
  cause: Call to `setuptools.build_meta:__legacy__.get_requires_for_build_wheel` failed (exit status: 1)

         [stderr]
         The 'sklearn' PyPI package is deprecated, use 'scikit-learn'
{"".join(f"         - advice line {number}" + chr(10) for number in range(20))}
hint: `sklearn` is often confused for `scikit-learn`. Did you mean to install `scikit-learn` instead?
"""
COMPILER = """\
r.c:1:10: fatal error: nosuch.h: No such file or directory
    1 | #include <nosuch.h>
      |          ^~~~~~~~~~
compilation terminated.
error: Command '['gcc', '-c', 'r.c']' returned non-zero exit status 1.
"""
LINKER = """\
building 'r' extension
/usr/bin/ld: cannot find -lfoo: No such file or directory
collect2: error: ld returned 1 exit status
error: command '/usr/bin/gcc' failed with exit code 1
"""
NO_SOLUTION = """\
Using Python 3.11.7 environment at: /v
error: No solution found when resolving dependencies
  cause: Because there is no version of six==99 and you require six==99, we can conclude that it cannot be.
"""
PIP_HAS_NONE = """\
Collecting tabulate
ERROR: Could not find a version that satisfies the requirement six==99 (from versions: 1.0)
ERROR: No matching distribution found for six==99

[notice] A new release of pip is available: 22.3 -> 26.3
[notice] To update, run: pip install --upgrade pip
"""
OWN_EXCEPTION = """\
Loading model.bin
Traceback (most recent call last):
  File "/server.py", line 3, in <module>
    load()
mine.NotReady: the model has no signature
one more line
"""
APT = """\
Reading package lists...
E: Unable to locate package libfoo-dev
"""


@pytest.mark.parametrize(
    ("output", "line"),
    [
        (HATCHLING, "ValueError: Unable to determine which files to ship inside the wheel"),
        (OF_UV_BUILD, "RuntimeError: please install libfoo first"),
        (OF_PIP, "RuntimeError: please install libfoo first"),
        (SKLEARN, "The 'sklearn' PyPI package is deprecated, use 'scikit-learn'"),
        (COMPILER, "r.c:1:10: fatal error: nosuch.h: No such file or directory"),
        (LINKER, "/usr/bin/ld: cannot find -lfoo: No such file or directory"),
        (NO_SOLUTION, "error: No solution found when resolving dependencies"),
        (PIP_HAS_NONE, "ERROR: No matching distribution found for six==99"),
        (OWN_EXCEPTION, "mine.NotReady: the model has no signature"),
        (APT, "E: Unable to locate package libfoo-dev"),
        ("fatal: not a git repository (or any of the parent directories): .git\n", None),
        ("npm ERR! code E404\nnpm ERR! 404 Not Found\n", "npm ERR! 404 Not Found"),
        (
            "CMake Error at CMakeLists.txt:2 (message):\n  no libfoo\n\n",
            "CMake Error at CMakeLists.txt:2 (message):",
        ),
        ("KeyError\n", "KeyError"),
        ("no words that are known\n", "no words that are known"),
    ],
)
def test_the_reason_is_shown(output: str, line: str | None) -> None:
    shown = [each.strip() for each in reason(output.splitlines())]
    assert (line or output.strip()) in shown
    assert len(shown) <= MOST_LINES
    if line and "ld:" not in line and "sklearn" not in line:
        assert reason_line(output.splitlines()) == line


def test_all_of_the_reason_is_shown_and_no_wrapping() -> None:
    shown = [line.strip() for line in reason(HATCHLING.splitlines())]
    assert shown[0].startswith("ValueError: ")
    assert shown[-1] == 'packages = ["src/foo"]'
    assert "" not in shown
    for output in (OF_UV_BUILD, OF_PIP):
        shown = [line.strip() for line in reason(output.splitlines())]
        assert shown == ["RuntimeError: please install libfoo first", *ADVICE.splitlines()]


def test_a_short_reason_has_the_lines_before_it() -> None:
    lines = [f"step {number}" for number in range(20)] + ["KeyError: 'LIBFOO'"]
    assert reason(lines) == ["step 16", "step 17", "step 18", "step 19", "KeyError: 'LIBFOO'"]
    assert reason_line(lines) == "KeyError: 'LIBFOO'"


def test_a_long_reason_keeps_its_beginning_and_its_end() -> None:
    lines = ["error: first", *(f"line {number}" for number in range(100))]
    shown = reason(lines)
    assert len(shown) == MOST_LINES
    assert (shown[0], shown[-1]) == ("error: first", "line 99")
    assert shown.count("…") == 1


def test_without_an_error_the_last_lines_are_shown() -> None:
    assert reason(map(str, range(100))) == [str(number) for number in range(100 - MOST_LINES, 100)]
    assert reason_line(["one", "two", ""]) == "two"
    assert reason(["", " "]) == []
    assert reason_line([]) == ""


def test_a_long_line_is_cut() -> None:
    assert len(reason(["error: " + "x" * 1000])[0]) == 300
