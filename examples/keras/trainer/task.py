"""A Keras classifier of handwritten digits: on one replica, or on several by MultiWorkerMirroredStrategy."""

import argparse
import json
import os
import shutil
import tempfile
from pathlib import Path

import tensorflow as tf
from sklearn.datasets import load_digits

HELD_OUT = 360


def folder_of(variable: str, otherwise: str) -> Path:
    """A folder that Vertex AI names. The bucket gs://NAME is also the folder /gcs/NAME."""
    folder = Path(os.environ.get(variable, otherwise).replace("gs://", "/gcs/", 1))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def make_strategy(workers: int) -> tf.distribute.Strategy:
    """The strategy of the job, which reads TF_CONFIG itself."""
    if workers > 1:
        return tf.distribute.MultiWorkerMirroredStrategy()
    return tf.distribute.get_strategy()


def make_model(learning_rate: float) -> tf.keras.Model:
    model = tf.keras.Sequential(
        [
            tf.keras.layers.InputLayer((8, 8, 1)),
            tf.keras.layers.Conv2D(32, 3, activation="relu"),
            tf.keras.layers.Flatten(),
            tf.keras.layers.Dense(64, activation="relu"),
            tf.keras.layers.Dense(10),
        ]
    )
    model.compile(
        optimizer=tf.keras.optimizers.Adam(learning_rate),
        loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    return model


def load(batch_size: int) -> tuple[tf.data.Dataset, tf.data.Dataset]:
    """Scans to learn from, and scans that are held out. Each worker takes its share of the former."""
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    scans, digits = load_digits(return_X_y=True)
    scans = scans.reshape(-1, 8, 8, 1).astype("float32") / 16
    learned = tf.data.Dataset.from_tensor_slices((scans[HELD_OUT:], digits[HELD_OUT:]))
    held_out = tf.data.Dataset.from_tensor_slices((scans[:HELD_OUT], digits[:HELD_OUT]))
    return (
        learned.shuffle(2000, seed=0).batch(batch_size, drop_remainder=True).with_options(options),
        held_out.batch(batch_size, drop_remainder=True).with_options(options),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=32, help="of each replica")
    parser.add_argument("--learning-rate", type=float, default=0.003)
    args = parser.parse_args()

    config = json.loads(os.environ.get("TF_CONFIG") or "{}")
    workers = sum(len(hosts) for hosts in config.get("cluster", {}).values()) or 1
    is_chief = workers == 1 or config["task"]["type"] == "chief"
    strategy = make_strategy(workers)
    learned, held_out = load(args.batch_size * workers)
    with strategy.scope():
        model = make_model(args.learning_rate)
    # Each worker does the same, as all take part in what they do, but only the chief's files are kept.
    scratch = Path(tempfile.mkdtemp())
    logs = folder_of("AIP_TENSORBOARD_LOG_DIR", "logs") if is_chief else scratch
    callbacks = [
        tf.keras.callbacks.BackupAndRestore(str(folder_of("AIP_CHECKPOINT_DIR", "checkpoints"))),
        tf.keras.callbacks.TensorBoard(str(logs)),
    ]
    model.fit(
        learned,
        validation_data=held_out,
        epochs=args.epochs,
        callbacks=callbacks,
        verbose=2 if is_chief else 0,
    )
    _, accuracy = model.evaluate(held_out, verbose=0)
    print(f"accuracy {accuracy:.3f}, replicas {workers}", flush=True)
    tf.saved_model.save(model, str(folder_of("AIP_MODEL_DIR", "model") if is_chief else scratch))
    shutil.rmtree(scratch)


if __name__ == "__main__":
    main()
