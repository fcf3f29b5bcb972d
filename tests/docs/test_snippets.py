"""Every shell snippet of the README, the tutorial and the how-to pages runs."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

import pytest
from lib.debug_client import DebugClient
from snippets import ROOT, Checkout, Command, blocks, commands, compare, in_image, run_all

README = ROOT / "README.md"
INSTALL, NOX, DOCKER, GCLOUD, VERTEX = "install", "same line in .ci/run", "docker", "gcloud", "vertex"
TORCH, DEBUGGER = "torch", "debugger"
NEEDS_INDEX = [README, ROOT / "docs/tutorial/first-job.md"]
DEBUG_PAGE = ROOT / "docs/how-to/troubleshooting.md"
RESTARTS_PAGE = ROOT / "docs/how-to/replicas-and-restarts.md"
PYTORCH_PAGE = ROOT / "docs/tutorial/pytorch-on-vertex.md"
DOCKER_PAGES = [
    ROOT / "docs/how-to/run-in-docker.md",
    ROOT / "docs/how-to/data-and-buckets.md",
]
MODEL_PAGE = ROOT / "docs/how-to/models.md"
INSTALLING = {MODEL_PAGE: [pytest.mark.network]}
PAGES = [*sorted((ROOT / "docs" / "how-to").glob("*.md")), ROOT / "examples" / "README.md"]


@pytest.mark.pages
@pytest.mark.network
@pytest.mark.parametrize("page", NEEDS_INDEX, ids=lambda page: page.stem)
def test_snippets_that_install_scikit_learn(page: Path, checkout: Checkout) -> None:
    """README and tutorials, all but the installation of vtrain."""
    run_all(commands(page, skipped_notes=(INSTALL, NOX, DOCKER, VERTEX)), *checkout)


@pytest.mark.pages
@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=INSTALLING.get(page, [])) for page in PAGES],
    ids=lambda page: page.stem,
)
def test_how_to_snippets(page: Path, checkout: Checkout) -> None:
    run_all(commands(page, skipped_notes=(DOCKER, GCLOUD, VERTEX, TORCH, DEBUGGER)), *checkout)


@pytest.mark.pages
@pytest.mark.network
def test_snippets_that_wait_for_a_debugger(checkout: Checkout) -> None:
    (command,) = commands(DEBUG_PAGE, notes=(DEBUGGER,))
    with ThreadPoolExecutor() as pool:
        trained = pool.submit(run_all, [command], *checkout)
        client = DebugClient(5678)
        client.attach()
        client.go()
        client.event("terminated")
        client.close()
        trained.result()


@pytest.mark.torch
@pytest.mark.network
@pytest.mark.timeout(900)
@pytest.mark.skipif(find_spec("torch") is None, reason="no PyTorch beside vtrain: run nox -s torch")
@pytest.mark.parametrize("page", [RESTARTS_PAGE, PYTORCH_PAGE], ids=lambda page: page.stem)
def test_snippets_that_train_with_torch(page: Path, checkout: Checkout) -> None:
    run_all(commands(page, notes=(TORCH,)), *checkout)


@pytest.mark.pages
@pytest.mark.docker
@pytest.mark.network
@pytest.mark.parametrize("page", DOCKER_PAGES, ids=lambda page: page.stem)
def test_snippets_that_run_containers(page: Path, checkout: Checkout, own_image: str) -> None:
    """What the other tests leave out, one after the other."""
    run_all([in_image(command, own_image) for command in commands(page, notes=(DOCKER,))], *checkout)


def test_every_block_with_an_image_runs_where_there_is_an_engine() -> None:
    noted = {page for page in [README, *(ROOT / "docs").rglob("*.md")] if commands(page, notes=(DOCKER,))}
    assert noted == set(DOCKER_PAGES)


@pytest.mark.readme
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("page", NEEDS_INDEX, ids=lambda page: page.stem)
def test_installation_as_pasted(page: Path, clone: Checkout) -> None:
    """The installing blocks, in a fresh clone and an empty HOME."""
    pasted = [block for block in blocks(page) if block.note == INSTALL]
    assert pasted
    run_all([Command(block.text, None, block.line) for block in pasted], *clone)
    assert (clone.folder / ".venv/bin/vtrain").exists()


@pytest.mark.readme
@pytest.mark.timeout(1800)
def test_the_first_command_trains_a_model(clone: Checkout) -> None:
    first = blocks(README)[0]
    run_all([Command(first.text, None, first.line)], *clone)
    found = list(Path(clone.environ["VTRAIN_HOME"]).glob("buckets/local-runs/*/model/metrics.json"))
    assert len(found) == 1
    assert json.loads(found[0].read_text())["accuracy"] >= 0.95


def test_ci_runs_the_test_command_of_the_readme() -> None:
    line = next(block.text.strip() for block in blocks(README) if block.note == NOX)
    assert line in (ROOT / ".ci" / "run").read_text()


def test_the_readme_has_no_untested_shell_block() -> None:
    untested = [block.line for block in blocks(README) if block.language not in ("sh", "console")]
    assert untested == []


def test_every_block_of_a_page_has_a_language() -> None:
    """A bare fence would escape the extractor."""
    for page in [README, *(ROOT / "docs").rglob("*.md")]:
        fences = [line for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("```")]
        assert len(fences) == 2 * len(blocks(page)), page


def test_compare_tells_what_differs() -> None:
    compare(Command("c", "a\n…\nb … d\n", 1), "a\nx\ny\nb c d\n")
    with pytest.raises(AssertionError, match="line 7"):
        compare(Command("c", "a\nb\n", 7), "a\nx\nb\n")


def test_a_failing_command_fails_the_page(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="ended with 3"):
        run_all([Command("(exit 3)", None, 1)], tmp_path, {})
    run_all([Command("(exit 3)", "", 1), Command("echo $?", "3\n", 2)], tmp_path, {})
