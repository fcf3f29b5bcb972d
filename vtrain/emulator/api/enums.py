"""The numbers of the API's enums, for clients that write and read them in place of names.

Google's Python library asks for them by `$alt=json;enum-encoding=int`. Sources: `accelerator_type`,
`custom_job`, `job_state`, `model`, `persistent_resource`, `pipeline_state`, `reservation_affinity` and
`study` of `google/cloud/aiplatform/v1`. The tests hold them against the installed google-cloud-aiplatform.
"""

from __future__ import annotations

_UNUSED = "-"


def _numbered(names: str, prefix: str = "") -> dict[str, int]:
    """The names with their places in the text as numbers."""
    return {prefix + name: number for number, name in enumerate(names.split()) if name != _UNUSED}


_JOB_STATES = _numbered(
    "UNSPECIFIED QUEUED PENDING RUNNING SUCCEEDED FAILED CANCELLING CANCELLED PAUSED EXPIRED UPDATING "
    "PARTIALLY_SUCCEEDED",
    "JOB_STATE_",
)
ENUMS: dict[tuple[str, str], dict[str, int]] = {
    ("CustomJob", "state"): _JOB_STATES,
    ("HyperparameterTuningJob", "state"): _JOB_STATES,
    ("TrainingPipeline", "state"): _numbered(
        "UNSPECIFIED QUEUED PENDING RUNNING SUCCEEDED FAILED CANCELLING CANCELLED PAUSED", "PIPELINE_STATE_"
    ),
    ("PersistentResource", "state"): _numbered(
        "STATE_UNSPECIFIED PROVISIONING - RUNNING STOPPING ERROR REBOOTING UPDATING"
    ),
    ("Trial", "state"): _numbered("STATE_UNSPECIFIED REQUESTED ACTIVE STOPPING SUCCEEDED INFEASIBLE"),
    ("MachineSpec", "acceleratorType"): _numbered(
        "ACCELERATOR_TYPE_UNSPECIFIED NVIDIA_TESLA_K80 NVIDIA_TESLA_P100 NVIDIA_TESLA_V100 NVIDIA_TESLA_P4 "
        "NVIDIA_TESLA_T4 TPU_V2 TPU_V3 NVIDIA_TESLA_A100 NVIDIA_A100_80GB TPU_V4_POD NVIDIA_L4 "
        "TPU_V5_LITEPOD NVIDIA_H100_80GB NVIDIA_H100_MEGA_80GB NVIDIA_H200_141GB NVIDIA_B200 NVIDIA_GB200 "
        "NVIDIA_RTX_PRO_6000"
    ),
    ("ReservationAffinity", "reservationAffinityType"): _numbered(
        "TYPE_UNSPECIFIED NO_RESERVATION ANY_RESERVATION SPECIFIC_RESERVATION"
    ),
    ("Scheduling", "strategy"): _numbered(
        "STRATEGY_UNSPECIFIED ON_DEMAND LOW_COST STANDARD SPOT - FLEX_START"
    ),
    ("MetricSpec", "goal"): _numbered("GOAL_TYPE_UNSPECIFIED MAXIMIZE MINIMIZE"),
    ("ParameterSpec", "scaleType"): _numbered(
        "SCALE_TYPE_UNSPECIFIED UNIT_LINEAR_SCALE UNIT_LOG_SCALE UNIT_REVERSE_LOG_SCALE"
    ),
    ("StudySpec", "algorithm"): _numbered("ALGORITHM_UNSPECIFIED - GRID_SEARCH RANDOM_SEARCH"),
    ("StudySpec", "observationNoise"): _numbered("OBSERVATION_NOISE_UNSPECIFIED LOW HIGH"),
    ("StudySpec", "measurementSelectionType"): _numbered(
        "MEASUREMENT_SELECTION_TYPE_UNSPECIFIED LAST_MEASUREMENT BEST_MEASUREMENT"
    ),
    ("Model", "supportedDeploymentResourcesTypes"): _numbered(
        "DEPLOYMENT_RESOURCES_TYPE_UNSPECIFIED DEDICATED_RESOURCES AUTOMATIC_RESOURCES SHARED_RESOURCES"
    ),
    ("ModelSourceInfo", "sourceType"): _numbered(
        "MODEL_SOURCE_TYPE_UNSPECIFIED AUTOML CUSTOM BQML MODEL_GARDEN GENIE CUSTOM_TEXT_EMBEDDING "
        "MARKETPLACE"
    ),
}
"""The enums by the message and the field that hold them."""
NAMES = {place: {number: name for name, number in enum.items()} for place, enum in ENUMS.items()}
