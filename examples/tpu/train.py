"""A classifier of handwritten digits in JAX, on all devices that JAX finds: chips of a TPU, or this CPU."""

import argparse
import os
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

BATCH = 128


def predict(weights, pixels):
    (w1, b1), (w2, b2) = weights
    return jax.nn.relu(pixels @ w1 + b1) @ w2 + b2


def loss(weights, pixels, digits):
    chosen = jnp.take_along_axis(jax.nn.log_softmax(predict(weights, pixels)), digits[:, None], axis=1)
    return -chosen.mean()


@jax.jit
def step(weights, pixels, digits, rate):
    return jax.tree.map(lambda w, g: w - rate * g, weights, jax.grad(loss)(weights, pixels, digits))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--learning-rate", type=float, default=0.3)
    args = parser.parse_args()

    devices = jax.devices()
    print(f"{len(devices)} devices: {devices[0].device_kind}")
    split = NamedSharding(Mesh(np.array(devices), ("batch",)), PartitionSpec("batch"))
    pixels, digits = load_digits(return_X_y=True)
    train_x, test_x, train_y, test_y = train_test_split(
        (pixels / 16).astype(np.float32), digits, random_state=0
    )
    first, second = jax.random.split(jax.random.key(0))
    weights = [
        (jax.random.normal(first, (64, 128)) * 0.1, jnp.zeros(128)),
        (jax.random.normal(second, (128, 10)) * 0.1, jnp.zeros(10)),
    ]
    for epoch in range(1, args.epochs + 1):
        order = np.random.default_rng(epoch).permutation(len(train_x))
        for start in range(0, len(order) - BATCH + 1, BATCH):  # each device gets its part of the batch
            chosen = order[start : start + BATCH]
            batch = jax.device_put((train_x[chosen], train_y[chosen]), split)
            weights = step(weights, *batch, args.learning_rate)
        if epoch % 10 == 0:
            accuracy = float((predict(weights, test_x).argmax(axis=1) == test_y).mean())
            print(f"epoch {epoch}/{args.epochs}  accuracy {accuracy:.3f}", flush=True)

    # On Vertex AI the bucket gs://NAME is also the folder /gcs/NAME.
    folder = Path(os.environ.get("AIP_MODEL_DIR", "model").replace("gs://", "/gcs/", 1))
    folder.mkdir(parents=True, exist_ok=True)
    np.savez(folder / "model.npz", *(array for layer in weights for array in layer))


if __name__ == "__main__":
    main()
