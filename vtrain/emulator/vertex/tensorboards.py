"""TensorBoards with their experiments, runs and time series, and the points of these.

Sources of the rules: `tensorboard_service.proto` and `tensorboard_data.proto` of the API's v1.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from vtrain.emulator.vertex.documents import in_camel_case, read_request, with_project
from vtrain.emulator.vertex.filters import (
    COMPARISONS,
    Restriction,
    Test,
    read_filter,
    time_test,
    wrong_filter,
)
from vtrain.emulator.vertex.operations import Operations
from vtrain.emulator.vertex.resource_listing import list_all
from vtrain.emulator.vertex.stored_resources import FOUND, StoredResources, life, update_method
from vtrain.emulator.vertex.training_service import TrainingService
from vtrain.emulator.vertex.vertex_call import (
    WHOLE,
    Document,
    Method,
    Services,
    VertexCall,
    field_of,
)
from vtrain.emulator.vertex.vertex_refusals import VertexRefusal, invalid
from vtrain.errors import StorageError
from vtrain.messages.codec import to_document
from vtrain.messages.kept_resources import (
    Tensorboard,
    TensorboardExperiment,
    TensorboardRun,
    TensorboardTimeSeries,
    TimeSeriesData,
    TimeSeriesDataPoint,
)
from vtrain.messages.names import (
    LOCAL_PROJECT,
    TENSORBOARD_EXPERIMENTS,
    TENSORBOARD_RUNS,
    TENSORBOARDS,
    TIME_SERIES,
    ResourceName,
)
from vtrain.privacy import make_private
from vtrain.runtime.experiments import POINTS
from vtrain.runtime.home import Home
from vtrain.times import nanoseconds

BLOBS = "cloud-ai-platform-tensorboards"
"""The bucket of all TensorBoards; the service makes one for each project, `cloud-ai-platform-` and an id."""
MOST_AT_ONCE = 1000
"""Resources of one batch, and time series of one read."""
MOST_WRITTEN = 5000
"""Points of one request (`WriteTensorboardRunDataRequest.time_series_data`)."""
LARGEST_SERIES = 16 << 20
"""Bytes of a time series, as lines of JSON: some 150,000 scalars."""
MOST_READ = {"SCALAR": 1000, "TENSOR": 100, "BLOB_SEQUENCE": 100}
"""Points of each series that one read answers (`BatchReadTensorboardTimeSeriesData`)."""
_VALUES = {"SCALAR": "scalar", "TENSOR": "tensor", "BLOB_SEQUENCE": "blobs"}
_NOT_FINITE = ("NaN", "Infinity", "-Infinity")


class Boards(StoredResources[Tensorboard]):
    """The TensorBoards themselves, each with a folder of a bucket where clients put graphs and images."""

    def __init__(self, home: Path, operations: Operations) -> None:
        super().__init__(home, TENSORBOARDS, Tensorboard, operations)
        self._bucket = Home(home).buckets / BLOBS

    def completed(self, document: Document) -> Any:
        self._bucket.mkdir(parents=True, exist_ok=True)
        folder = str(document["name"]).rpartition("/")[2]
        return super().completed({**document, "blobStoragePathPrefix": f"{BLOBS}/{folder}"})


def _life_below(noun: str, part: str) -> tuple[Method, ...]:
    """The methods of what is in a TensorBoard."""
    return (*life(noun, part, created=(f"{field_of(noun)}Id",)), update_method(noun, part))


class Tensorboards:
    """The TensorBoards of one home. Several threads use it."""

    def __init__(self, service: TrainingService) -> None:
        home, operations = service.home, service.operations
        self.boards = Boards(home, operations)
        self.experiments = StoredResources[TensorboardExperiment](
            home, TENSORBOARD_EXPERIMENTS, TensorboardExperiment, operations, needs=()
        )
        self.runs = StoredResources[TensorboardRun](
            home, TENSORBOARD_RUNS, TensorboardRun, operations, is_unique=True
        )
        self.series = StoredResources[TensorboardTimeSeries](
            home,
            TIME_SERIES,
            TensorboardTimeSeries,
            operations,
            needs=("displayName", "valueType"),
            is_unique=True,
        )

    def create_runs(self, call: VertexCall) -> Document:
        """Make several runs of an experiment."""
        calls = list(_each(call, "tensorboardRun", call.parent, "runs"))
        return {"tensorboardRuns": self.runs.create_several(calls)}

    def create_series(self, call: VertexCall) -> Document:
        """Make several time series, of any runs of an experiment."""
        calls = list(_each(call, "tensorboardTimeSeries", call.name, "timeSeries"))
        return {"tensorboardTimeSeries": self.series.create_several(calls)}

    def write_experiment(self, call: VertexCall) -> Document:
        """Add points to time series of several runs."""
        runs = [
            in_camel_case(request, ("tensorboardRun", "timeSeriesData"))
            for request in _messages(call.fields.get("writeRunDataRequests"), "write_run_data_requests")
        ]
        for fields in runs:
            name = str(with_project(fields.get("tensorboardRun", ""), LOCAL_PROJECT))
            _check_below(name, call.name)
            self._write(name, fields.get("timeSeriesData"))
        return {}

    def write_run(self, call: VertexCall) -> Document:
        """Add points to time series of one run."""
        self._write(call.name, call.fields.get("timeSeriesData"))
        return {}

    def _write(self, run: str, given: Any) -> None:
        data = [
            read_request(TimeSeriesData, document, f"time_series_data[{index}]")
            for index, document in enumerate(_messages(given, "time_series_data"))
        ]
        if sum(len(one.values) for one in data) > MOST_WRITTEN:
            raise invalid(f"time_series_data: it has more than {MOST_WRITTEN} data points.")
        found = [self.series.files.find(f"{run}/timeSeries/{one.tensorboard_time_series_id}") for one in data]
        for series, one in zip(found, data, strict=True):
            for point in one.values:
                _check_point(point, series, one)
        for series, one in zip(found, data, strict=True):
            if one.values:
                self._append(series.name, one.values)

    def _append(self, name: str, points: Sequence[TimeSeriesDataPoint]) -> None:
        file = self.series.files.folder(name) / POINTS
        # Each line has its end before it too, so that one that a full disk or a kill has cut stays alone.
        lines = b"".join(b"\n" + msgspec.json.encode(to_document(point)) + b"\n" for point in points)
        with self.series.files.changing(name) as found:
            try:
                make_private(file.parent)
                size = file.stat().st_size if file.exists() else 0
                if size + len(lines) > LARGEST_SERIES:
                    problem = f"{name} would have more than {LARGEST_SERIES} bytes."
                    raise VertexRefusal("RESOURCE_EXHAUSTED", problem)
                with file.open("ab") as opened:
                    opened.write(lines)
            except OSError as error:
                raise StorageError(f"{file} cannot be written: {error.strerror}.") from error
            known = found.metadata or {}
            steps = [int(known["maxStep"])] if known else []
            last = max([*steps, *(point.step for point in points)])
            times = sorted((known.get("maxWallTime", ""), *(point.wall_time for point in points)))
            self.series.files.change(found, metadata={"maxStep": str(last), "maxWallTime": times[-1]})

    def read(self, call: VertexCall) -> Document:
        """The points of a time series."""
        most = str(call.fields.get("maxDataPoints") or 0)
        if most != "-1" and not re.fullmatch("[0-9]{1,9}", most):
            raise invalid(f"max_data_points: {most[:100]!r} is neither a positive number nor -1.")
        passes = read_filter(call.text("filter"), _point_test)
        return {"timeSeriesData": self._data(call.name, passes, int(most))}

    def read_several(self, call: VertexCall) -> Document:
        """The points of several time series of a TensorBoard."""
        names = [str(name) for name in with_project(call.names("timeSeries"), LOCAL_PROJECT)]
        if len(names) > MOST_AT_ONCE:
            raise invalid(f"time_series: it has more than {MOST_AT_ONCE} names.")
        self.boards.files.find(call.name)
        for name in names:
            _check_below(name, call.name)
        return {"timeSeriesData": [self._data(name, lambda _: True) for name in names]}

    def export(self, call: VertexCall) -> Document:
        """A page of the points of a time series."""
        size = call.fields.get("pageSize") or MOST_READ["SCALAR"]
        asked = msgspec.structs.replace(call, fields={**call.fields, "pageSize": size})
        points = self._points(self.series.files.find(call.name))
        page = list_all(asked, points, listed="timeSeriesDataPoints", test_of=_point_test)
        if points := page.get("timeSeriesDataPoints", []):
            page["timeSeriesDataPoints"] = [{**point, "step": str(point["step"])} for point in points]
        return page

    def _data(self, name: str, passes: Test, most: int = 0) -> Document:
        """A time series as a read answers it: `most` of its points (-1: all), evenly, the last among them."""
        series = self.series.files.find(name)
        points = [point for point in self._points(series) if passes(point)]
        most = most or MOST_READ[series.value_type]
        if 0 < most < len(points):
            points = [points[(index + 1) * len(points) // most - 1] for index in range(most)]
        values = [{**point, "step": str(point["step"])} for point in points]
        series_id = name.rpartition("/")[2]
        return {"tensorboardTimeSeriesId": series_id, "valueType": series.value_type, "values": values}

    def _points(self, series: TensorboardTimeSeries) -> list[Document]:
        """All points by their steps, which are numbers here; the last one written at a step counts."""
        try:
            lines = (self.series.files.folder(series.name) / POINTS).read_bytes().splitlines()
        except FileNotFoundError:
            return []
        points: dict[int, Document] = {}
        for line in lines:
            try:
                point = msgspec.json.decode(line)
                step = int(point.get("step", 0))
            except (msgspec.DecodeError, ValueError, AttributeError):  # the emulator was ended while it wrote
                continue
            points[step] = {**point, "step": step}
        return [points[step] for step in sorted(points)]

    MESSAGES = (Tensorboard, TensorboardExperiment, TensorboardRun, TensorboardTimeSeries)
    SERVICES: ClassVar[Services] = {
        "TensorboardService": {
            TENSORBOARDS: (
                *life("Tensorboard", "boards", is_slow=True),
                update_method("Tensorboard", "boards", is_slow=True),
                Method("BatchReadTensorboardTimeSeriesData", "GET", "*:batchRead", read_several,
                       "BatchReadTensorboardTimeSeriesDataResponse", "", ("timeSeries",), "tensorboard"),
            ),
            TENSORBOARD_EXPERIMENTS: (
                *_life_below("TensorboardExperiment", "experiments"),
                Method("BatchCreateTensorboardTimeSeries", "POST", "*:batchCreate", create_series,
                       "BatchCreateTensorboardTimeSeriesResponse", WHOLE, ("requests",), "parent"),
                Method("WriteTensorboardExperimentData", "POST", "*:write", write_experiment,
                       "WriteTensorboardExperimentDataResponse", WHOLE, ("writeRunDataRequests",),
                       "tensorboardExperiment"),
            ),
            TENSORBOARD_RUNS: (
                *_life_below("TensorboardRun", "runs"),
                Method("BatchCreateTensorboardRuns", "POST", ":batchCreate", create_runs,
                       "BatchCreateTensorboardRunsResponse", WHOLE, ("requests",)),
                Method("WriteTensorboardRunData", "POST", "*:write", write_run,
                       "WriteTensorboardRunDataResponse", WHOLE, ("timeSeriesData",), "tensorboardRun"),
            ),
            TIME_SERIES: (
                *_life_below("TensorboardTimeSeries", "series"),
                Method("ReadTensorboardTimeSeriesData", "GET", "*:read", read,
                       "ReadTensorboardTimeSeriesDataResponse", "", ("maxDataPoints", "filter"),
                       "tensorboardTimeSeries"),
                Method("ExportTensorboardTimeSeriesData", "POST", "*:exportTensorboardTimeSeries", export,
                       "ExportTensorboardTimeSeriesDataResponse", WHOLE, FOUND, "tensorboardTimeSeries"),
            ),
        }
    }  # fmt: skip


def _check_point(point: TimeSeriesDataPoint, series: TensorboardTimeSeries, data: TimeSeriesData) -> None:
    """Raise VertexRefusal for a point that is not one of its time series."""
    given = [name for name in _VALUES.values() if getattr(point, name) is not None]
    if data.value_type not in ("", series.value_type) or given != [_VALUES[series.value_type]]:
        raise invalid(f"time_series_data: {series.name} has points of the type {series.value_type}.")
    value = (point.scalar or {}).get("value", 0.0)
    if type(value) not in (int, float) and value not in _NOT_FINITE:
        raise invalid(f"Invalid value at 'scalar.value' (TYPE_DOUBLE), {str(value)[:300]}")
    if not -(2**63) <= point.step < 2**63:
        raise invalid(f"Invalid value at 'step' (TYPE_INT64), {point.step}")
    try:
        nanoseconds(point.wall_time)
    except ValueError:
        raise invalid(f"Invalid value at 'wall_time' (Timestamp), {point.wall_time[:100]!r}") from None


def _point_test(restriction: Restriction) -> Test:
    """The test of a point by one restriction: of `step` or `wall_time`."""
    comparison, value = restriction.comparison, restriction.value
    if restriction.field in ("wall_time", "wallTime"):
        return time_test("wallTime", restriction)
    if (
        restriction.field != "step"
        or comparison not in COMPARISONS
        or not re.fullmatch("-?[0-9]{1,19}", value)
    ):
        raise wrong_filter(f"{restriction.field}{comparison}{value}")
    holds, wanted = COMPARISONS[comparison], int(value)
    return lambda point: holds(point["step"], wanted)


def _messages(given: Any, field: str) -> list[Document]:
    if not isinstance(given or [], list) or not all(isinstance(one, dict) for one in given or []):
        raise invalid(f"{field}: expected a list of messages.")
    return list(given or [])


def _check_below(name: str, parent: str) -> None:
    if not name.startswith(f"{parent}/"):
        raise invalid(f"{name[:300]!r} is not below {parent}.")


def _each(call: VertexCall, field: str, above: str, collection: str) -> Iterable[VertexCall]:
    """The requests of a batch, each of a resource that is to be made somewhere below `above`."""
    requests = _messages(call.fields.get("requests"), "requests")
    if len(requests) > MOST_AT_ONCE:
        raise invalid(f"requests: it has more than {MOST_AT_ONCE} of them.")
    for request in requests:
        fields = in_camel_case(request, ("parent", field, f"{field}Id"))
        parent = str(with_project(fields.get("parent") or above, LOCAL_PROJECT))
        if parent != above:
            _check_below(parent, above)
        _, project, _, location, *rest = parent.split("/")
        place = ResourceName(
            project=project, location=location, collection="/".join([*rest, collection]), id=""
        )
        yield VertexCall(place=place, fields=fields, body=fields.get(field) or {}, version=call.version)
