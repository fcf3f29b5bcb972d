"""The reference says what the code says: commands, flags, exit codes, variables, modules."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

import msgspec
import pytest
from snippets import ROOT, blocks

from vtrain import cli
from vtrain.commands.reference import PLACE, filled
from vtrain.flags import variables
from vtrain.flags.command import build_command
from vtrain.messages.codec import read_message
from vtrain.messages.custom_job import CustomJobSpec
from vtrain.messages.yaml_reader import load_yaml
from vtrain.output.language.expressions import transforms
from vtrain.output.language.format import FORMATS
from vtrain.pyproject import ProjectJob
from vtrain.runtime.replica.vertex_view import JobContext, replica_environment, replica_ids

DOCS = ROOT / "docs"
JOB_YAML = DOCS / "how-to" / "describe-a-job.md"
COMMANDS = DOCS / "reference" / "commands.md"
FORMATS_PAGE = DOCS / "reference" / "formats-and-filters.md"
CONFIGURATION = DOCS / "reference" / "configuration.md"
TESTS_ONLY = re.compile(r"VTRAIN_(REQUIRE|LIVE)_\w+")


def sections(page: Path) -> dict[str, str]:
    """The text below each second-level heading."""
    parts = re.split(r"^## (.+)\n", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def anchor(heading: str) -> str:
    return re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-")


def anchors(page: Path) -> list[str]:
    return [
        anchor(heading)
        for heading in re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    ]


def real_commands() -> dict[str, Any]:
    """Every command by its name as typed, built as the program builds it."""
    found = {}
    for group, listed in cli.GROUPS.items():
        found |= {f"vtrain {group} {info.name}": build_command(info) for info in listed.commands()}
    alone = map(cli.command_alone, cli.COMMANDS)
    return found | {f"vtrain {info.name}": build_command(info) for info in alone}


def shown_flags(command: Any) -> set[str]:
    """The long names of a command's flags, without dashes."""
    found = set()
    for param in command.params:
        if param.param_type_name == "option" and not param.hidden:
            found |= {name[2:] for name in param.opts if name.startswith("--")}
    return found


def shown(page: Path) -> str:
    """A page with what the program fills in."""
    root = cli.command_alone("help").fixed["make_root"]()
    return filled(page.read_text(encoding="utf-8"), root)


def first_cells(table: str) -> list[str]:
    """What the first column of a table names."""
    rows = re.findall(r"^\| (.+?) \|", table, flags=re.MULTILINE)
    return re.findall(r"`([\w-]+)`", " ".join(rows))


def test_the_program_fills_in_each_place_of_the_pages() -> None:
    places = [place for page in DOCS.rglob("*.md") for place in PLACE.findall(page.read_text("utf-8"))]
    tables = ("[tool.vtrain.job]", "[tool.vtrain]", "commands", "exit codes", "properties", "variables")
    assert sorted(places) == list(tables)
    assert [page for page in DOCS.rglob("*.md") if "<!-- from" in shown(page)] == []


def test_the_page_of_commands_is_made_of_their_help() -> None:
    """Each command has a section of its own, and each flag that it shows stands on the page."""
    text = shown(COMMANDS)
    headings = re.findall(r"^## (vtrain .+|Common flags)$", text, flags=re.MULTILINE)
    groups = {" ".join(name.split()[:count]) for name in real_commands() for count in (2, 3, 4)}
    assert set(real_commands()) <= set(headings) <= {*real_commands(), *groups, "Common flags"}
    assert len(headings) == len(set(headings))
    rows = set(re.findall(r"--(?:\[no-\])?([a-z-]+)", text))
    flags = {flag for command in real_commands().values() for flag in shown_flags(command)}
    assert flags and flags <= rows


def test_keys_of_a_job_stand_beside_the_flags_that_win_over_them() -> None:
    text = shown(CONFIGURATION)
    assert "such as 16g; none: no limit | `VTRAIN_MEMORY` |" in text
    rows = re.findall(r"^\| `([a-z-]+)` \| [^|]+ \| (?:`--([a-z-]+)`)? *\|$", text, flags=re.MULTILINE)
    found = dict(rows[-len(ProjectJob.__struct_encode_fields__) :])
    assert list(found) == list(ProjectJob.__struct_encode_fields__)
    assert (found["name"], found["bucket"], found["accelerator-type"]) == (
        "display-name",
        "staging-bucket",
        "",
    )
    assert set(found.values()) - {""} <= shown_flags(real_commands()["vtrain run"])


def test_exit_codes_are_those_of_the_classes() -> None:
    text = shown(COMMANDS)
    assert "| 12 | contact lost: the job's state is unknown |\n| 124 | `--wait-timeout` passed" in text


def test_every_variable_that_vtrain_reads_is_documented() -> None:
    sources = [path for path in (ROOT / "vtrain").rglob("*.py") if path.name != "variables.py"]
    read = {
        name
        for path in sources
        for name in re.findall(r"\b(?:VTRAIN|CLOUDSDK)_[A-Z_]+\b", path.read_text(encoding="utf-8"))
    }
    named = {name for names in variables.VARIABLES for name in names.split()}
    assert {name for name in read if not TESTS_ONLY.fullmatch(name)} <= named
    assert named <= set(first_cells(shown(CONFIGURATION)))


def test_every_property_of_gcloud_that_vtrain_reads_is_documented() -> None:
    text = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "vtrain").rglob("*.py"))
    sections_of_gcloud = {name.partition("/")[0] for name in variables.PROPERTIES}
    pairs = re.findall(rf'\("({"|".join(sections_of_gcloud)})", "(\w+)"\)', text)
    addresses = [
        ("api_endpoint_overrides", name) for name in re.findall(r'endpoint_override\("(\w+)"\)', text)
    ]
    assert len(addresses) >= 3
    assert {"/".join(pair) for pair in pairs + addresses} == set(variables.PROPERTIES)
    page = shown(CONFIGURATION)
    for name, row in variables.PROPERTIES.items():
        assert f"| `{name}` | {row.meaning} | {row.flag and f'`{row.flag}`'} | {row.default} |" in page
    flags = {row.flag[2:] for row in variables.PROPERTIES.values() if row.flag}
    assert flags <= set(re.findall(r"--(?:\[no-\])?([a-z-]+)", shown(COMMANDS)))


def test_every_variable_of_a_replica_is_documented() -> None:
    pool = {"replicaCount": "2", "pythonPackageSpec": {"pythonModule": "trainer.task"}}
    image = {"replicaCount": "1", "containerSpec": {"imageUri": "python:3.12"}}
    board = {"tensorboard": "projects/1/locations/r/tensorboards/1", "enableDashboardAccess": True}
    spec = read_message(CustomJobSpec, {"workerPoolSpecs": [pool, image]} | board)
    members = replica_ids(spec)
    context = JobContext(
        job_id="1",
        region="us-central1",
        hosts={m: f"h:{i}" for i, m in enumerate(members)},
        output="/out",
        trial_id="1",
    )
    seen = {name for member in members for name in replica_environment(spec, member, context)}
    table = sections(CONFIGURATION)["Variables of a replica"]
    documented = {
        name for row in table.splitlines() for name in re.findall(r"`([A-Z_]+)`", row.split(" | ")[0])
    }
    assert seen <= documented
    assert documented <= seen | {"LOCAL_RANK", "NODE_RANK", "LOCAL_WORLD_SIZE"}


def test_every_format_and_transform_is_documented() -> None:
    text = FORMATS_PAGE.read_text(encoding="utf-8")
    assert [name for name in (*FORMATS, *transforms()) if f"`{name}`" not in text] == []


def test_the_packages_of_the_design_are_there() -> None:
    text = sections(DOCS / "explanation" / "design.md")["Layers and packages"]
    named = {
        name for row in text.splitlines() if row.startswith("| ") for name in re.findall(r"`([\w/]+)`", row)
    }
    missing = [name for name in named if not list((ROOT / "vtrain").glob(f"{name}*"))]
    assert named and not missing
    entries = [path for path in (ROOT / "vtrain").iterdir() if path.is_dir() or path.suffix == ".py"]
    packages = {path.stem for path in entries if not path.name.startswith("_")}
    assert packages - {name.partition("/")[0] for name in named} == set()


def test_the_gallery_has_each_picture_and_its_commands() -> None:
    text = (DOCS / "explanation" / "gallery.md").read_text(encoding="utf-8")
    pictures = [DOCS / "terminal.svg", *(DOCS / "pictures").iterdir()]
    assert [path.name for path in pictures if f"/{path.name})" not in text] == []
    pytest.importorskip("pyte")
    made = runpy.run_path(str(DOCS / "picture.py"))["PICTURES"]
    assert [line for commands in made.values() for line in commands if f"\n{line}\n" not in text] == []


def test_links_between_pages_lead_somewhere() -> None:
    for page in [ROOT / "README.md", *DOCS.rglob("*.md")]:
        prose = re.sub(r"```.*?```|`[^`]*`", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        for target, fragment in re.findall(r"\]\(([^)#:\s]*)(#[^)]*)?\)", prose):
            file = (page.parent / target) if target else page
            assert file.exists(), f"{page}: {target}"
            if fragment:
                headings = re.findall(r"^#+ (.+)$", file.read_text(encoding="utf-8"), flags=re.MULTILINE)
                assert fragment[1:] in [anchor(heading) for heading in headings], (
                    f"{page}: {target}{fragment}"
                )


def test_the_changelog_has_this_version() -> None:
    import vtrain

    text = (DOCS / "changelog.md").read_text(encoding="utf-8")
    assert re.search(rf"^## {re.escape(vtrain.__version__)} \(\d{{4}}-\d\d-\d\d\)$", text, flags=re.MULTILINE)


def fields_of(message: Any) -> set[str]:
    """The names of a message's fields, and of those of the messages below it, as the API writes them."""
    found = set()
    for field in msgspec.structs.fields(message):
        found.add(field.encode_name)
        for part in (field.type, *getattr(field.type, "__args__", ())):
            if isinstance(part, type) and issubclass(part, msgspec.Struct):
                found |= fields_of(part)
    return found


def keys_in(document: Any) -> set[str]:
    """Every key of a document, at any depth."""
    if isinstance(document, dict):
        return set(document).union(*map(keys_in, document.values()))
    return set().union(*map(keys_in, document)) if isinstance(document, list) else set()


def test_the_commented_job_has_every_field() -> None:
    (block,) = [block for block in blocks(JOB_YAML) if block.language == "yaml"]
    document = load_yaml(block.text, JOB_YAML.name)
    assert len(read_message(CustomJobSpec, document).worker_pool_specs) == 2
    assert keys_in(document) == fields_of(CustomJobSpec)
