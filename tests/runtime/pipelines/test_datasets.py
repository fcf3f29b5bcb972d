"""The parts of datasets: every record once, at the right place, whatever its bytes are."""

from __future__ import annotations

import gzip
import json
import math
import os
import shutil
import struct
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from vtrain.errors import ConfigError
from vtrain.messages.training_pipeline import (
    FilterSplit,
    FractionSplit,
    InputDataConfig,
    PredefinedSplit,
    TimestampSplit,
)
from vtrain.rooted import Root
from vtrain.runtime.pipelines.dataset import (
    MAX_RECORD_BYTES,
    SETS,
    BadDatasetError,
    DataFile,
    find_dataset,
    parse_filter,
    read_records,
    remove_split,
    split_dataset,
)


def data_file(path: Path) -> DataFile:
    return DataFile(Root(path.parent), path.name, path)


def parts(folder: Path) -> dict[str, bytes]:
    """The content of each part."""
    return {name: next(folder.glob(f"{name}-*")).read_bytes() for name in SETS}


def split(tmp_path: Path, name: str, content: bytes, **config: object) -> dict[str, bytes]:
    """The parts of one file."""
    file = tmp_path / name
    file.write_bytes(content)
    wanted = InputDataConfig(dataset_id=str(file), **config)  # type: ignore[arg-type]
    split_dataset(find_dataset(wanted, tmp_path), wanted, Root(tmp_path, "out"), seed="1")
    return parts(tmp_path / "out")


@example(total=2, fractions=(0.25, 0.375, 0.375), seed="")
@given(
    total=st.integers(2, 300),
    fractions=st.tuples(*[st.floats(0, 1)] * 3).filter(lambda three: 0 < sum(three) <= 1 and three[0] > 0.1),
    seed=st.text(max_size=5),
)
def test_fractions_are_met_and_no_record_is_lost(
    tmp_path_factory: pytest.TempPathFactory, total: int, fractions: tuple[float, ...], seed: str
) -> None:
    folder = tmp_path_factory.mktemp("split")
    file = folder / "data.jsonl"
    file.write_text("".join(f'{{"n": {number}}}\n' for number in range(total)))
    training, validation, test = fractions
    config = InputDataConfig(
        dataset_id=str(file),
        fraction_split=FractionSplit(
            training_fraction=training, validation_fraction=validation, test_fraction=test
        ),
    )
    if round(validation * total) + round(test * total) >= total:  # as of two records, with 3/8 for each
        with pytest.raises(BadDatasetError, match="No record of the dataset belongs to the training set"):
            split_dataset(find_dataset(config, folder), config, Root(folder, "out"), seed=seed)
        assert [path.name for path in folder.iterdir()] == ["data.jsonl"]
        return
    counts = split_dataset(find_dataset(config, folder), config, Root(folder, "out"), seed=seed)
    found = {name: content.splitlines() for name, content in parts(folder / "out").items()}
    assert {name: len(lines) for name, lines in found.items()} == counts
    assert counts["validation"] == round(validation * total)
    assert counts["test"] == round(test * total)
    assert sorted(b"".join(parts(folder / "out").values()).splitlines()) == sorted(
        file.read_bytes().splitlines()
    )


def test_the_same_seed_gives_the_same_parts_and_another_one_others(tmp_path: Path) -> None:
    file = tmp_path / "data.jsonl"
    file.write_text("".join(f'{{"n": {number}}}\n' for number in range(200)))
    config = InputDataConfig(dataset_id=str(file))
    found = []
    for seed in ("a", "a", "b"):
        split_dataset(find_dataset(config, tmp_path), config, Root(tmp_path, "out"), seed=seed)
        found.append(parts(tmp_path / "out"))
    assert found[0] == found[1] != found[2]


def test_a_row_of_csv_may_hold_newlines_and_no_newline_may_end_the_file(tmp_path: Path) -> None:
    rows = b'text,set\n"a\nb ""c""",training\n"d,\n",test\ne,validation\nf,TRAINING\ng,other\nh'
    found = split(tmp_path, "data.csv", rows, predefined_split=PredefinedSplit(key="set"))
    assert found == {
        "training": b'text,set\n"a\nb ""c""",training\nf,TRAINING\n',
        "validation": b"text,set\ne,validation\n",
        "test": b'text,set\n"d,\n",test\n',
    }


BOM = b"\xef\xbb\xbf"


def test_a_byte_order_mark_is_no_part_of_the_first_record(tmp_path: Path) -> None:
    use = PredefinedSplit(key="set")
    table = BOM + b"set,n\r\ntraining,1\r\n"
    assert split(tmp_path, "a.csv", table, predefined_split=use)["training"] == table.removeprefix(BOM)
    item = b'{"set": "training"}\n'
    assert split(tmp_path, "b.jsonl", BOM + item, predefined_split=use)["training"] == item


TABLE = "set,n\r\ntraining,é\r\n"


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
@pytest.mark.parametrize("coding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-be"])
def test_a_file_in_another_coding_is_refused_at_once(tmp_path: Path, suffix: str, coding: str) -> None:
    """Bytes of it that look like newlines would cut its characters in two."""
    (tmp_path / f"data.{suffix}").write_bytes((TABLE if suffix == "csv" else '{"n": 1}\n').encode(coding))
    config = InputDataConfig(dataset_id=str(tmp_path))
    with pytest.raises(ConfigError, match=rf"data\.{suffix} is no text in UTF-8 .* iconv -f UTF-(16|32)"):
        find_dataset(config, tmp_path)


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_a_compressed_file_is_refused(tmp_path: Path, suffix: str) -> None:
    content = gzip.compress(os.urandom(3000))
    with pytest.raises((ConfigError, BadDatasetError), match=rf"data\.{suffix} is no text in UTF-8"):
        split(tmp_path, f"data.{suffix}", content)


def test_a_null_far_from_the_start_is_refused_on_every_python(tmp_path: Path) -> None:
    with pytest.raises(BadDatasetError, match="is no text in UTF-8"):
        split(tmp_path, "data.csv", b"a\n1\n2\x00\n3\n")
    assert [path.name for path in tmp_path.iterdir()] == ["data.csv"]


def test_other_codings_that_have_ascii_in_them_are_kept_as_they_are(tmp_path: Path) -> None:
    row = "training,é\r\n".encode("latin-1")
    found = split(tmp_path, "data.csv", b"set,n\r\n" + row, predefined_split=PredefinedSplit(key="set"))
    assert found["training"] == b"set,n\r\n" + row


def test_a_split_hears_that_it_is_not_wanted_any_more(tmp_path: Path) -> None:
    (tmp_path / "data.jsonl").write_bytes(b"{}\n" * 1000)
    config = InputDataConfig(dataset_id=str(tmp_path / "data.jsonl"))
    dataset, looks = find_dataset(config, tmp_path), []

    def hear() -> None:
        looks.append(1)
        if len(looks) == 3:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        for _ in range(3):
            split_dataset(dataset, config, Root(tmp_path, "out"), seed="1", hear=hear)
            shutil.rmtree(tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["data.jsonl"]


def test_a_quote_within_a_value_is_a_character(tmp_path: Path) -> None:
    rows = b'set,size\ntraining,3.5" disk\ntest,"4"" ""\n"\nvalidation,5"\n'
    found = split(tmp_path, "data.csv", rows, predefined_split=PredefinedSplit(key="set"))
    assert found == {
        "training": b'set,size\ntraining,3.5" disk\n',
        "validation": b'set,size\nvalidation,5"\n',
        "test": b'set,size\ntest,"4"" ""\n"\n',
    }


def test_a_value_of_csv_may_be_long_and_of_any_bytes(tmp_path: Path) -> None:
    rows = b"set,text\ntraining," + b"z" * 200_000 + b"\ntest,\xff\xfe\n"
    found = split(tmp_path, "data.csv", rows, predefined_split=PredefinedSplit(key="set"))
    assert (len(found["training"]), found["test"]) == (200_019, b"set,text\ntest,\xff\xfe\n")


def test_files_of_csv_have_the_same_columns_or_none(tmp_path: Path) -> None:
    config = InputDataConfig(dataset_id=str(tmp_path / "*.csv"))
    (tmp_path / "a.csv").touch()
    (tmp_path / "b.csv").write_text("x,y\n1,2\n")
    (tmp_path / "c.csv").write_text('"x",y\r\n3,4\r\n')
    split_dataset(find_dataset(config, tmp_path), config, Root(tmp_path, "out"), seed="1")
    assert parts(tmp_path / "out")["training"] == b"x,y\n1,2\n3,4\r\n"
    (tmp_path / "d.csv").write_text("y,x\n1,2\n")
    with pytest.raises(ConfigError, match=r"d\.csv has other columns than .*b\.csv"):
        find_dataset(config, tmp_path)


def test_a_file_may_have_the_signs_of_a_pattern_in_its_name(tmp_path: Path) -> None:
    assert split(tmp_path, "data[1].csv", b"n\n1\n")["training"] == b"n\n1\n"


def test_a_label_that_is_not_there_passes_no_filter(tmp_path: Path) -> None:
    lines = b'{"dataItemResourceLabels": {"site": "None"}}\n{}\n'
    wanted = FilterSplit(training_filter="labels.site=None")
    assert split(tmp_path, "data.jsonl", lines, filter_split=wanted)["training"] == lines[:-3]


def test_lines_of_json_are_divided_by_their_labels(tmp_path: Path) -> None:
    lines = [
        {"n": 1, "dataItemResourceLabels": {"aiplatform.googleapis.com/ml_use": "training"}},
        {"n": 2, "dataItemResourceLabels": {"aiplatform.googleapis.com/ml_use": "test", "site": "a"}},
        {"n": 3, "dataItemResourceLabels": None},
        {"n": 4},
    ]
    content = "".join(json.dumps(line) + "\n\n" for line in lines).encode()
    use = "labels.aiplatform.googleapis.com/ml_use"
    wanted = FilterSplit(
        training_filter=f"{use}=training",
        validation_filter="-",
        test_filter=f'{use}="test" AND labels.site=a',
    )
    found = split(tmp_path, "data.jsonl", content, filter_split=wanted)
    numbers = {name: [json.loads(line)["n"] for line in part.splitlines()] for name, part in found.items()}
    assert numbers == {"training": [1], "validation": [], "test": [2]}


def test_records_of_tfrecord_files_stay_whole(tmp_path: Path) -> None:
    records = [
        struct.pack("<Q", len(data)) + b"crc1" + data + b"crc2" for data in (b"", b"\n" * 5, b"x" * 999)
    ]
    found = split(tmp_path, "data.tfrecord", b"".join(records * 10))
    (tmp_path / "all.tfrecord").write_bytes(b"".join(found.values()))
    assert sorted(read_records(data_file(tmp_path / "all.tfrecord"), "tf-record")) == sorted(records * 10)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("data.tfrecord", b"not a record at all", "no TFRecord file"),
        ("data.tfrecord", struct.pack("<Q", 2**63) + b"crc1", "no TFRecord file"),
        ("data.tfrecord", struct.pack("<Q", 5) + b"crc1ab", "no TFRecord file"),
        ("data.csv", b'a,b\n1,"2\n', "ends within quotes"),
        ("data.csv", b'a,b\n1,"2', "ends within quotes"),
        ("data.jsonl", b"", "training set"),
        ("data.csv", b"", "training set"),
    ],
)
def test_a_file_of_another_format_is_told(tmp_path: Path, name: str, content: bytes, words: str) -> None:
    with pytest.raises(BadDatasetError, match=words):
        split(tmp_path, name, content)
    assert not (tmp_path / "out").exists()


def test_a_record_without_end_fills_no_memory(tmp_path: Path) -> None:
    file = tmp_path / "data.jsonl"
    with file.open("wb") as stream:
        stream.truncate(MAX_RECORD_BYTES * 4)
    with pytest.raises(BadDatasetError, match="a line of more than"):
        list(read_records(data_file(file), "jsonl"))


@pytest.mark.parametrize(
    "line", [b"[1]", b'{"set": "\xff"}', b'{"set": ' + b"[" * 90_000 + b"]" * 90_000 + b"}"]
)
def test_a_line_that_is_no_object_is_told(tmp_path: Path, line: bytes) -> None:
    with pytest.raises(BadDatasetError, match="no JSON object"):
        split(tmp_path, "data.jsonl", line + b"\n", predefined_split=PredefinedSplit(key="set"))


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (InputDataConfig(dataset_id="{}/none"), "that ends in"),
        (InputDataConfig(dataset_id="{}"), "csv and jsonl"),
        (InputDataConfig(dataset_id="gs://nowhere/x.csv"), "that ends in"),
        (
            InputDataConfig(dataset_id="{}/*.csv", predefined_split=PredefinedSplit(key="no")),
            "no column 'no'",
        ),
        (InputDataConfig(dataset_id="{}/*.csv", filter_split=FilterSplit()), "only jsonl files have"),
        (InputDataConfig(dataset_id="{}/*.csv", timestamp_split=TimestampSplit(key="a")), "timestamp_split"),
        (
            InputDataConfig(
                dataset_id="{}/*.csv",
                fraction_split=FractionSplit(training_fraction=0.9, test_fraction=0.2),
            ),
            "at most 1",
        ),
        (
            InputDataConfig(dataset_id="{}/*.csv", fraction_split=FractionSplit(test_fraction=math.nan)),
            "at most 1",
        ),
        (
            InputDataConfig(dataset_id="{}/*.jsonl", filter_split=FilterSplit(test_filter="a>1")),
            "'a>1' is not a filter",
        ),
        (InputDataConfig(dataset_id="{}/old/mac.csv"), "mac.csv: new-line character"),
        (InputDataConfig(dataset_id="{}/old/open.csv"), "open.csv ends within quotes"),
    ],
)
def test_datasets_that_cannot_be_meant_are_refused(
    tmp_path: Path, config: InputDataConfig, words: str
) -> None:
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    (tmp_path / "b.jsonl").write_text("{}\n")
    (tmp_path / "old").mkdir()
    (tmp_path / "old/mac.csv").write_bytes(b"a,b\r1,2\r")
    (tmp_path / "old/open.csv").write_text('"a')
    named = InputDataConfig(
        **{
            field: getattr(config, field) if field != "dataset_id" else config.dataset_id.format(tmp_path)
            for field in config.__struct_fields__
        }
    )
    with pytest.raises(ConfigError, match=words):
        find_dataset(named, tmp_path)


def test_a_folder_of_files_is_one_dataset(tmp_path: Path) -> None:
    for name in ("b.csv", "a.csv"):
        (tmp_path / name).write_text("a\n1\n")
    (tmp_path / "README").write_text("x")
    found = find_dataset(InputDataConfig(dataset_id=str(tmp_path)), tmp_path)
    assert [file.path for file in found.files] == [tmp_path / "a.csv", tmp_path / "b.csv"]
    assert found.format == "csv"


def test_a_filter_that_is_none_is_refused() -> None:
    assert parse_filter("-") is parse_filter("") is None
    with pytest.raises(ConfigError, match="'a>1' is not a filter"):
        parse_filter("a>1")


def test_no_link_in_a_bucket_leads_to_records(tmp_path: Path) -> None:
    """A container may have put it there; a link in a folder of the user's is the user's own."""
    (tmp_path / "outside.csv").write_text("secret\n1\n")
    folder = tmp_path / "home" / "buckets" / "bucket" / "data"
    folder.mkdir(parents=True)
    (folder / "a.csv").symlink_to(tmp_path / "outside.csv")
    for dataset_id in ("gs://bucket/data", "gs://bucket/data/a.csv", "gs://bucket/data/*.csv"):
        with pytest.raises(ConfigError, match="that ends in"):
            find_dataset(InputDataConfig(dataset_id=dataset_id), tmp_path / "home")
    (folder / "b.csv").write_text("own\n1\n")
    for dataset_id in ("gs://bucket/data/", "gs://bucket/data/b.csv", "gs://bucket/data/?.csv"):
        (found,) = find_dataset(InputDataConfig(dataset_id=dataset_id), tmp_path / "home").files
        assert found.path == folder / "b.csv"
    (found,) = find_dataset(InputDataConfig(dataset_id=str(folder / "a.csv")), tmp_path / "home").files
    assert found.path == folder / "a.csv"


def test_no_link_of_a_trainer_leads_the_parts_elsewhere(tmp_path: Path) -> None:
    bucket, outside = tmp_path / "bucket", tmp_path / "outside"
    bucket.mkdir()
    outside.mkdir()
    (outside / "file").touch()
    (tmp_path / "data.jsonl").write_bytes(b"{}\n" * 10)
    config = InputDataConfig(dataset_id=str(tmp_path / "data.jsonl"))
    dataset = find_dataset(config, tmp_path)
    (bucket / "output").symlink_to(outside)
    with pytest.raises(NotADirectoryError):
        split_dataset(dataset, config, Root(bucket, "output/dataset"), seed="1")
    (bucket / "dataset").symlink_to(outside)
    split_dataset(dataset, config, Root(bucket, "dataset"), seed="1")  # in place of the link
    assert len(list((bucket / "dataset").iterdir())) == 3

    def swap() -> None:
        shutil.rmtree(bucket / "dataset", ignore_errors=True)
        (bucket / "dataset").unlink(missing_ok=True)
        (bucket / "dataset").symlink_to(outside)

    with suppress(OSError):
        split_dataset(dataset, config, Root(bucket, "dataset"), seed="1", hear=swap)
    swap()
    remove_split(Root(bucket, "dataset"))
    assert not (bucket / "dataset").is_symlink()
    assert [path.name for path in outside.iterdir()] == ["file"]


def test_what_a_trainer_left_among_the_parts_goes_with_them(tmp_path: Path) -> None:
    (tmp_path / "dataset" / "closed" / "below").mkdir(parents=True)
    (tmp_path / "dataset" / "closed" / "file").touch()
    (tmp_path / "dataset" / "closed").chmod(0)
    remove_split(Root(tmp_path, "dataset"))
    assert list(tmp_path.iterdir()) == []
