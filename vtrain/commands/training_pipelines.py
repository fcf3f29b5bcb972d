"""`vtrain training-pipelines`: its commands. What a command works with is imported when it runs."""

from __future__ import annotations

from vtrain.commands.job_commands import Words, job_commands
from vtrain.flags.command import CommandInfo
from vtrain.flags.pipeline_options import PipelineFlag, PipelineLine
from vtrain.messages.names import PIPELINE

COMMANDS = (
    CommandInfo(
        name="create",
        handler="vtrain.commands.create:create_pipeline",
        summary="Create a training pipeline: a job, and the model that is registered when it succeeds.",
        details="The trainer writes its model to the folder that AIP_MODEL_DIR names. A pipeline that asks "
        "for a model fails if that folder is empty. With --dataset the trainer finds its data by "
        "AIP_TRAINING_DATA_URI, AIP_VALIDATION_DATA_URI and AIP_TEST_DATA_URI.",
        examples=(
            (
                "Train on this machine, and register the model",
                "vtrain training-pipelines create --display-name=digits --backend=process "
                "--local-package-path=. --python-module=trainer.task --model-display-name=digits "
                "--serving-container-image-uri=us-docker.pkg.dev/vertex-ai/prediction/sklearn-cpu.1-5:latest",
            ),
            (
                "Give the trainer three parts of a file",
                "vtrain training-pipelines create --display-name=prices --backend=process "
                "--local-package-path=. --script=train.py --dataset=prices.csv --stream-logs",
            ),
            (
                "Create the pipeline that a file describes",
                "vtrain training-pipelines create --config=pipeline.yaml --wait",
            ),
        ),
        required=("--display-name",),
        flags=(PipelineLine,),
        takes_remainder=True,
    ),
    *job_commands(
        PIPELINE,
        PipelineFlag,
        Words(
            job="training pipeline",
            describe="Print one training pipeline, with its job and its model.",
            cancel="Cancel a training pipeline, and the job that it runs.",
            stream_logs="Print the log of a pipeline until it ends, and exit with a code for its state.",
            delete="Delete an ended training pipeline. Its job and its model stay.",
        ),
    ),
)
