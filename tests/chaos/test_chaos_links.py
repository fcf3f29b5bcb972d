"""A trainer in a container that tries to lead vtrain out of its bucket by links that come and go.

`VTRAIN_ESCAPE_SECONDS` is how long it tries.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path

import msgspec
import pytest
from lib.waiting import wait_until
from places import Place

from vtrain.messages import states

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(900), pytest.mark.docker]

SECONDS = float(os.environ.get("VTRAIN_ESCAPE_SECONDS", "8"))
SECRET = "the secret of this machine"
_TRAINER = """
import base64, os, sys, time, urllib.error, urllib.request
from urllib.parse import quote, urlsplit

outside, seconds = {outside!r}, {seconds!r}
bucket, _, top = os.environ["AIP_MODEL_DIR"].removeprefix("gs://").partition("/")
folder, link, kept = (f"/gcs/{{bucket}}/{{top}}{{name}}" for name in ("folder", "link", "kept"))
os.mkdir(folder)
open(folder + "/secret", "w").write("own")
os.symlink(outside, link)
parent = os.getpid()
if os.fork() == 0:
    while os.getppid() == parent:
        for source, target in ((folder, kept), (link, folder), (folder, link), (kept, folder)):
            try:
                os.rename(source, target)
            except OSError:
                pass
    os._exit(0)

endpoint = urlsplit(os.environ["STORAGE_EMULATOR_HOST"])
user = base64.b64encode(f"{{endpoint.username}}:{{endpoint.password}}".encode()).decode()
base = f"http://{{endpoint.hostname}}:{{endpoint.port}}"


def ask(method, path, data=None):
    request = urllib.request.Request(base + path, data, {{"Authorization": f"Basic {{user}}"}}, method=method)
    try:
        return urllib.request.urlopen(request).read()
    except urllib.error.HTTPError as error:
        return error.read()


place, number = quote(top + "folder/", safe=""), 0
objects, uploads = f"/storage/v1/b/{{bucket}}/o", f"/upload/storage/v1/b/{{bucket}}/o?uploadType=media&name="
end = time.monotonic() + seconds
while time.monotonic() < end:
    number += 1
    answers = [
        ask("GET", f"{{objects}}/{{place}}secret?alt=media"),
        ask("GET", f"{{objects}}?prefix={{place}}"),
        ask("POST", f"{{uploads}}{{place}}secret", b"evil"),
        ask("POST", f"{{uploads}}{{place}}{{number}}", b"evil"),
        ask("POST", f"{{uploads}}{{place}}a%2F{{number}}%2Fb", b"evil"),
        ask("POST", f"{{objects}}/{{place}}secret/copyTo/b/{{bucket}}/o/stolen", b"{{}}"),
        ask("DELETE", f"{{objects}}/{{place}}only-outside"),
    ]
    if any({secret!r}.encode() in answer for answer in answers) or b"/only-outside" in answers[1]:
        sys.exit("READ")
print("rounds", number)
"""


def test_no_link_of_a_container_leads_out_of_its_bucket(docker_place: Place, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o700)
    for name in ("secret", "only-outside"):
        (outside / name).write_text(SECRET)
    place = docker_place
    place.settings = msgspec.structs.replace(place.settings, aip_dirs="gs")
    job = place.job(code=_TRAINER.format(outside=str(outside), seconds=SECONDS, secret=SECRET))
    name = place.submit(job)
    work = place.checkpoints(job.display_name).parent / "model"
    wait_until((work / "kept").exists)
    over, copies = threading.Event(), tmp_path / "copies"

    def copy() -> None:
        while not over.is_set():
            command = place.command("cp", f"{name.rpartition('/')[2]}:model", str(copies))
            command.communicate()

    copier = threading.Thread(target=copy)
    copier.start()
    try:
        wait_until(lambda: states.has_ended(place.backend.get(name).state), patience=SECONDS + 120)
    finally:
        over.set()
        copier.join()
    ended = place.ended(name)
    assert ended.state == states.SUCCEEDED, ended.error
    assert {path.name: path.read_text() for path in outside.iterdir()} == dict.fromkeys(
        ("secret", "only-outside"), SECRET
    )
    for folder in (copies, place.home / "buckets"):
        for path in folder.rglob("*"):
            assert path.is_symlink() or not path.is_file() or SECRET not in path.read_text()
