"""The recorded runs in which vtrain differs from gcloud on purpose, each with its reason."""

from __future__ import annotations

MOST = 25
"""How many there may be."""

_TEXT = "n and yes are text where text belongs: YAML is read with the scalars of YAML 1.2"
_REPEATED = "a trainer may be given the same argument twice"
_UNKNOWN = "a field that the API does not have is refused, or sent with --allow-unknown-fields"
_LOST = "every line of the log is shown once, in order, late ones too; gcloud drops some"
_NOT_BUILT = "an image whose build or start would fail is refused before it is built"
_NO_PACKAGE = "a package that is none (the recorded one is a file with an x) is refused"

DIFFERENCES: dict[str, str] = {
    "cfg.bad-type-env-bool": _TEXT,
    "cfg.yaml11-n-is-false": _TEXT,
    "cfg.snake-case": _UNKNOWN,
    "cfg.yaml-anchor": _UNKNOWN,
    "cfg.yaml-duplicate-key": "a key that stands twice is refused; gcloud takes the first of the two",
    "createerr.args-duplicate-across": _REPEATED,
    "flagsfile.args-with-duplicates": _REPEATED,
    "createerr.remainder": "what follows -- are the trainer's arguments",
    "describe.url": "a name may be given as the URL that --uri prints",
    "servererr.create-503-once": "a create is made again only after the job was looked for",
    "list.object": "the format object prints Python objects of gcloud itself",
    "logs.two-batches": _LOST,
    "logs.same-timestamp": _LOST,
    "logs.out-of-order": _LOST,
    "logs.fraction-digits-order": _LOST,
    "logs.message-number": "a message that is a number is shown; gcloud crashes",
    "pkg.script-missing": _NOT_BUILT,
    "pkg.script-outside-package": _NOT_BUILT,
    "pkg.newline-in-requirement": _NOT_BUILT,
    "pkg.requirements-custom-delim": _NOT_BUILT,
    "pkg.name-all-illegal": "an image is called unnamed where gcloud's has a name that no registry takes",
    "localrun.extras": _NO_PACKAGE,
    "localrun.extra-package-outside": _NO_PACKAGE,
    "localrun.build-fails": "125 where the trainer cannot be run, not the code of docker build",
    "localrun.region-flag": "local-run takes --region: the trainer sees it as on Vertex AI",
}
