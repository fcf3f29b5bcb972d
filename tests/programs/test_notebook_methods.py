"""How many of the public training notebooks call only methods that the emulator answers."""

from __future__ import annotations

import pytest

pytest.importorskip("starlette")

from notebook_counts import ANSWERED, BEHAVIOURS, CALLED, MISSING, NOTEBOOKS, by_notebooks_won

WHOLE = 195
"""Notebooks whose methods are all answered: measured, and said on the page."""


def test_the_notebooks_whose_methods_are_all_answered() -> None:
    total = len(NOTEBOOKS)
    for method, number in CALLED.most_common():
        print(f"{method:60} {number:4} {100 * number // total:3} % {'yes' if method in ANSWERED else 'no'}")
    for behaviour, number in BEHAVIOURS.most_common():
        print(f"{behaviour:60} {number:4} {100 * number // total:3} %")
    for number, methods in by_notebooks_won():
        print(f"{number:4} more with {', '.join(methods)}")
    assert (sum(not missing for missing in MISSING.values()), total) == (WHOLE, 246)


@pytest.mark.programs
def test_calls_are_found_in_the_code() -> None:
    """Classes are followed through assignments, loops and functions; other libraries' calls do not count."""
    from count_methods import methods_of, services

    cells = [
        "%pip install x\nfrom google.cloud import aiplatform as aip\nimport keras",
        "!gcloud storage ls\naip.init(project='p')\njob = aip.CustomTrainingJob(\n  script_path='a')",
        "%%time\nmodel = job.run(sync=False)\nend = model.deploy(endpoint=aip.Endpoint.create('e'))",
        "for each in aip.Model.list():\n    each.delete()\nend.predict(instances=[1])\nkeras.Model().fit()",
        "from google.cloud import bigquery\nbigquery.Client().create_dataset('d')",
        "def client():\n    return aip.gapic.JobServiceClient()\nclients = {}\nclients['job'] = client()",
        "clients['job'].list_custom_jobs(parent=p)",
        "this is no Python\nx = 1",
        "%%bash\ngcloud ai endpoints describe 7",
        "%%writefile task.py\nfrom google.cloud import aiplatform\naiplatform.Tensorboard.create()",
    ]
    notebook = {"cells": [{"cell_type": "code", "source": [cell]} for cell in cells]}
    found = methods_of(notebook, services())
    assert {one.partition(".")[2] for one in found if "." in one} == {
        "CreateTrainingPipeline",
        "GetTrainingPipeline",
        "CreateEndpoint",
        "DeployModel",
        "GetEndpoint",
        "GetOperation",
        "ListModels",
        "DeleteModel",
        "Predict",
        "ListCustomJobs",
        "CreateTensorboard",
    }
    assert {one for one in found if "." not in one} == {"BigQuery", "gcloud storage"}
    assert methods_of({"cells": notebook["cells"][:2]}, services()) == set()
