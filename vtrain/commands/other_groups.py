"""Groups beside those of jobs: persistent resources, models, AI Platform, packages, the emulator."""

from __future__ import annotations

from vtrain.flags.ai_platform_options import ClusterFlags, LegacyJobFlag, PackageFlags
from vtrain.flags.command import CommandInfo
from vtrain.flags.emulator_options import (
    ClientFlags,
    EmulatedBackendFlag,
    EnvFlags,
    RunningFlags,
    StartFlags,
    StoragePortFlag,
)
from vtrain.flags.job_options import (
    EntryFlags,
    ForceFlag,
    ImageFlags,
    PersistentResourceFlags,
    ResourceNameFlag,
    TrainerFlags,
)
from vtrain.flags.local_options import RuntimeFlags
from vtrain.flags.model_options import (
    ModelCopyFlags,
    ModelNameFlag,
    ModelVersionFlag,
    PredictFlags,
    UploadFlags,
)
from vtrain.flags.options import (
    COMMAND,
    CommonFlags,
    DryRunFlag,
    InterruptFlag,
    ListFlags,
    OutputDirFlag,
    PlaceFlags,
    StreamFlags,
)
from vtrain.messages.names import ANY_JOB

PERSISTENT_RESOURCES = (
    CommandInfo(
        name="create",
        handler="vtrain.commands.persistent_resources:create",
        summary="Create a persistent resource.",
        details="The command does not wait until the machines are running; 'describe' prints their state.",
        examples=(
            (
                "Keep two machines",
                "vtrain persistent-resources create --persistent-resource-id=team --region=us-central1 "
                "--resource-pool-spec=machine-type=n1-standard-4,replica-count=2",
            ),
            (
                "Run a job on them",
                "vtrain custom-jobs create --display-name=demo --config=job.yaml "
                "--persistent-resource-id=team",
            ),
        ),
        required=("--persistent-resource-id",),
        flags=(PersistentResourceFlags, DryRunFlag, PlaceFlags, CommonFlags),
    ),
    CommandInfo(
        name="list",
        handler="vtrain.commands.persistent_resources:list_resources",
        summary="List persistent resources: as a table on a terminal, as YAML elsewhere.",
        details="Clusters of Ray are left out.",
        examples=(
            ("List the resources of a region", "vtrain persistent-resources list --region=us-central1"),
            ("Print their names", "vtrain persistent-resources list --format='value(name.basename())'"),
        ),
        flags=(ListFlags, PlaceFlags, CommonFlags),
    ),
    CommandInfo(
        name="describe",
        handler="vtrain.commands.persistent_resources:describe",
        summary="Print one persistent resource.",
        examples=(
            ("Print a resource as YAML", "vtrain persistent-resources describe team"),
            ("Print its state", "vtrain persistent-resources describe team --format='value(state)'"),
        ),
        flags=(ResourceNameFlag, PlaceFlags, CommonFlags),
    ),
    CommandInfo(
        name="delete",
        handler="vtrain.commands.persistent_resources:delete",
        summary="Delete a persistent resource.",
        details="On Vertex AI its jobs are cancelled. On this machine that needs --force.",
        examples=(("Delete a resource", "vtrain persistent-resources delete team --region=us-central1"),),
        flags=(ResourceNameFlag, ForceFlag, PlaceFlags, CommonFlags),
    ),
    CommandInfo(
        name="reboot",
        handler="vtrain.commands.persistent_resources:reboot",
        summary="Restart the machines of a persistent resource. No job may be running on it.",
        examples=(("Restart the machines", "vtrain persistent-resources reboot team --region=us-central1"),),
        flags=(ResourceNameFlag, PlaceFlags, CommonFlags),
    ),
)

MODELS = (
    CommandInfo(
        name="upload",
        handler="vtrain.commands.models:upload",
        summary="Keep a trained model, or another version of one.",
        details="The files stay where they are. The image is the one that answers predictions.",
        examples=(
            (
                "Keep the model that a job has written",
                "vtrain models upload --display-name=digits --artifact-uri=gs://models/first/model "
                "--container-image-uri=us-docker.pkg.dev/vertex-ai/prediction/sklearn-cpu.1-6:latest",
            ),
            (
                "Keep another version of it",
                "vtrain models upload --parent-model=digits --version-aliases=best --display-name=digits "
                "--artifact-uri=gs://models/second/model "
                "--container-image-uri=us-docker.pkg.dev/vertex-ai/prediction/sklearn-cpu.1-6:latest",
            ),
        ),
        required=("--container-image-uri", "--display-name"),
        flags=(UploadFlags, DryRunFlag, PlaceFlags, CommonFlags),
    ),
    CommandInfo(
        name="list",
        handler="vtrain.commands.models:list_models",
        summary="List models as a table, each by its default version.",
        examples=(
            ("List the models of this machine", "vtrain models list --backend=local"),
            ("Print their ids, one per line", "vtrain models list --format='value(name.basename())'"),
        ),
        flags=(ListFlags, PlaceFlags, CommonFlags),
    ),
    CommandInfo(
        name="list-version",
        handler="vtrain.commands.models:list_version",
        summary="List the versions of a model as a table.",
        examples=(
            ("List the versions of a model", "vtrain models list-version digits"),
            (
                "Print the aliases of each version",
                "vtrain models list-version digits --format='value(versionId,versionAliases)'",
            ),
        ),
        flags=(ModelNameFlag, ListFlags, PlaceFlags, CommonFlags),
    ),
    CommandInfo(
        name="describe",
        handler="vtrain.commands.models:describe",
        summary="Print one version of a model: the default one, where none is named.",
        examples=(
            ("Print the default version as YAML", "vtrain models describe digits"),
            (
                "Print the folder of another one",
                "vtrain models describe digits@2 --format='value(artifactUri)'",
            ),
        ),
        flags=(ModelNameFlag, PlaceFlags, CommonFlags),
    ),
    CommandInfo(
        name="delete",
        handler="vtrain.commands.models:delete",
        summary="Delete a model with all its versions. On this machine its files stay.",
        examples=(("Delete a model", "vtrain models delete digits"),),
        flags=(ModelNameFlag, PlaceFlags, CommonFlags),
    ),
    CommandInfo(
        name="delete-version",
        handler="vtrain.commands.models:delete_version",
        summary="Delete one version of a model. The default version goes with its model alone.",
        examples=(("Delete a version", "vtrain models delete-version digits@2"),),
        flags=(ModelVersionFlag, PlaceFlags, CommonFlags),
    ),
    CommandInfo(
        name="copy",
        handler="vtrain.commands.models:copy",
        summary="Copy a model to a region, as a new model or as another version of one.",
        examples=(
            (
                "Copy a model to another region",
                "vtrain models copy --source-model=digits --region=europe-west4",
            ),
            (
                "Make a version of it",
                "vtrain models copy --source-model=digits@2 --destination-parent-model=production",
            ),
        ),
        required=("--source-model",),
        flags=(ModelCopyFlags, PlaceFlags, CommonFlags),
    ),
    CommandInfo(
        name="predict",
        handler="vtrain.commands.predict:predict",
        summary="Run one prediction with a model, on this machine.",
        details="The model's container is started, asked once, and removed. On the backend process a server "
        "stands in for the pre-built containers of scikit-learn, XGBoost, TensorFlow and PyTorch.",
        examples=(
            ("Ask the default version", "vtrain models predict digits --json-request=request.json"),
            ("Ask another version", "vtrain models predict digits@best --json-request=- --format=json"),
        ),
        required=("--json-request",),
        flags=(ModelNameFlag, PredictFlags, PlaceFlags, CommonFlags),
    ),
)

AI_PLATFORM = (
    CommandInfo(
        name="jobs submit training",
        handler="vtrain.commands.ai_platform:submit",
        summary="Submit a training job. With --explain, print it in the words of Vertex AI.",
        details="The job becomes a custom job or, with hyperparameters in its file, a hyperparameter tuning "
        "job. --backend chooses where it runs, as everywhere.",
        examples=(
            (
                "Train on this machine",
                "vtrain ai-platform jobs submit training my_job --backend=process --scale-tier=BASIC "
                "--module-name=trainer.task --package-path=trainer --job-dir=gs://bucket/job --stream-logs",
            ),
            (
                "Print the command and the file that say the same",
                "vtrain ai-platform jobs submit training my_job --region=us-central1 --runtime-version=2.11 "
                "--module-name=trainer.task --package-path=trainer --explain",
            ),
        ),
        line="vtrain.flags.ai_platform_options:LegacyLine",
        takes_remainder=True,
    ),
    CommandInfo(
        name="jobs list",
        handler="vtrain.commands.job_lists:list_jobs",
        summary="List jobs, newest first.",
        examples=(("List the ten newest jobs", "vtrain ai-platform jobs list --limit=10"),),
        flags=(ListFlags, PlaceFlags, CommonFlags),
        fixed={"kind": ANY_JOB},
    ),
    CommandInfo(
        name="jobs describe",
        handler="vtrain.commands.ai_platform:describe",
        summary="Print a job.",
        examples=(("Print a job as YAML", "vtrain ai-platform jobs describe my_job"),),
        flags=(LegacyJobFlag, PlaceFlags, CommonFlags),
    ),
    CommandInfo(
        name="jobs cancel",
        handler="vtrain.commands.ai_platform:cancel",
        summary="Cancel a job.",
        examples=(("Cancel a job", "vtrain ai-platform jobs cancel my_job"),),
        flags=(LegacyJobFlag, PlaceFlags, CommonFlags),
    ),
    CommandInfo(
        name="jobs stream-logs",
        handler="vtrain.commands.ai_platform:stream_logs",
        summary="Print the log of a job until it ends, and exit with a code for its state.",
        examples=(("Print the log", "vtrain ai-platform jobs stream-logs my_job"),),
        flags=(LegacyJobFlag, StreamFlags, PlaceFlags, CommonFlags),
    ),
    CommandInfo(
        name="local train",
        handler="vtrain.commands.ai_platform:train",
        summary="Run a trainer on this machine, and exit with its exit code.",
        details="With --distributed there are a chief, workers and parameter servers, each with TF_CONFIG.",
        examples=(
            (
                "Run a package",
                "vtrain ai-platform local train --module-name=trainer.task --package-path=trainer -- --n=3",
            ),
        ),
        required=("--module-name",),
        flags=(PackageFlags, ClusterFlags, InterruptFlag, RuntimeFlags, PlaceFlags, CommonFlags),
        takes_remainder=True,
    ),
)

PACKAGE = (
    CommandInfo(
        name="image",
        handler="vtrain.commands.package:image",
        summary="Build a container image of a trainer, and print its name.",
        details="The image is based on --executor-image-uri. An image of the same files on the same base is "
        "not built again.",
        examples=(
            ("Build an image", "vtrain package image train.py --executor-image-uri=python:3.12"),
            (
                "Build an image with your own Dockerfile, and push it",
                "vtrain package image . --dockerfile=Dockerfile --push "
                "--output-image-uri=us-docker.pkg.dev/my-project/my-repo/trainer:v1",
            ),
        ),
        flags=(EntryFlags, TrainerFlags, ImageFlags, DryRunFlag, CommonFlags),
    ),
    CommandInfo(
        name="sdist",
        handler="vtrain.commands.package:sdist",
        summary="Package a trainer as a source distribution, and print its path or URI.",
        details="The same files give the same package with the same name.",
        examples=(
            ("Write a package into the folder dist", "vtrain package sdist . -m trainer.task"),
            (
                "Upload a package to a bucket",
                "vtrain package sdist train.py --output-dir=gs://my-bucket/packages",
            ),
        ),
        flags=(EntryFlags, TrainerFlags, OutputDirFlag, CommonFlags),
    ),
)

EMULATOR = (
    CommandInfo(
        name="start",
        handler="vtrain.commands.emulator:start",
        summary="Serve the API of Vertex AI Training over this machine's jobs, until Ctrl-C or SIGTERM.",
        details="One port answers Vertex AI, Cloud Logging, Cloud Storage and requests for credentials. "
        "`vtrain emulator env` prints what leads gcloud, vtrain and Google's libraries to it. Every project "
        "is this machine: the jobs are those of `vtrain ps`, and run on when the emulator ends. "
        "Requests without the token of the printed address, and those of web pages, are refused.",
        examples=(
            ("Start it in the background", "vtrain emulator start --detach"),
            ("Run its jobs in containers", "vtrain emulator start --backend=docker --port=9000"),
        ),
        flags=(StartFlags, EmulatedBackendFlag, ClientFlags, CommonFlags),
    ),
    CommandInfo(
        name="stop",
        handler="vtrain.commands.emulator:stop",
        summary="End a running emulator; its jobs run on.",
        examples=(("End the one at a port", "vtrain emulator stop --port=8089"),),
        flags=(RunningFlags, CommonFlags),
    ),
    CommandInfo(
        name="status",
        handler="vtrain.commands.emulator:status",
        summary="List the running emulators.",
        examples=(("Print their addresses", "vtrain emulator status --format='value(url)'"),),
        flags=(CommonFlags,),
    ),
    CommandInfo(
        name="env",
        handler="vtrain.commands.emulator:env",
        summary="Print the exports that lead gcloud, vtrain and Google's libraries to an emulator.",
        examples=(
            ("Print them for one of several", "vtrain emulator env --port=8089"),
            ("Also for programs that speak gRPC", "vtrain emulator env --grpc"),
            ("Print what leads a shell back to Google", "vtrain emulator env --unset"),
        ),
        flags=(RunningFlags, EnvFlags, CommonFlags),
    ),
    CommandInfo(
        name="exec",
        handler="vtrain.commands.emulator:execute",
        summary="Run a command with an emulator of its own, and end with the command's exit code.",
        details="The emulator listens on a free port as long as the command runs. A Python program that was "
        "written for the cloud needs no change: its gRPC is led here too, if the extra vertex is installed.",
        examples=(
            ("Run a program of the SDK", "vtrain emulator exec -- python train_on_vertex.py"),
            (
                "List jobs by gcloud",
                "vtrain emulator exec -- gcloud ai custom-jobs list --region=us-central1",
            ),
        ),
        flags=(EmulatedBackendFlag, CommonFlags),
        takes_remainder=True,
        remainder=COMMAND,
    ),
    CommandInfo(
        name="storage",
        handler="vtrain.commands.servers:storage",
        summary="Serve the local buckets with the API of Cloud Storage, until Ctrl-C or SIGTERM.",
        details="Prints the variable for clients: STORAGE_EMULATOR_HOST=http://127.0.0.1:PORT/TOKEN. "
        "Requests without the token, and those of web pages, are refused.",
        examples=(
            ("Serve the buckets on a port of your choice", "vtrain emulator storage --port=9023"),
            ("Serve them to a container", "vtrain emulator storage --host=0.0.0.0"),
        ),
        flags=(StoragePortFlag, ClientFlags, CommonFlags),
    ),
)
