"""A notebook that keeps its tables in a bucket by pandas, which asks gcsfs."""

import io

import fsspec
import pandas
from google.cloud import storage

bucket = storage.Client(project="demo").create_bucket("stage")
frame = pandas.DataFrame({"x": range(1000), "y": [each / 7 for each in range(1000)]})
frame.to_csv("gs://stage/data/train.csv", index=False)
assert pandas.read_csv("gs://stage/data/train.csv").equals(
    pandas.read_csv(io.StringIO(frame.to_csv(index=False)))
)
pandas.DataFrame().to_csv("gs://stage/data/empty.csv", index=False, header=False)

files = fsspec.filesystem("gs")
large = bytes(range(256)) * 40_000
with files.open("gs://stage/data/large.bin", "wb") as stream:  # in two chunks of 5 MiB
    stream.write(large)
assert files.cat("gs://stage/data/large.bin") == large == bucket.blob("data/large.bin").download_as_bytes()
assert sorted(files.ls("gs://stage/data")) == [
    f"stage/data/{n}" for n in ("empty.csv", "large.bin", "train.csv")
]
assert (
    files.glob("gs://stage/**/*.csv")
    and files.exists("gs://stage/data")
    and not files.exists("gs://stage/no")
)
files.cp("gs://stage/data/train.csv", "gs://stage/copy.csv")
files.rm("gs://stage/data", recursive=True)
assert [each.name for each in bucket.list_blobs()] == ["copy.csv"]
print("done")
