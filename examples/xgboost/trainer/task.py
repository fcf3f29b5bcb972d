"""Boosted trees that tell three kinds of wine apart by their chemistry."""

import argparse
import json
import logging
import os
from pathlib import Path

import hypertune
import xgboost as xgb
from sklearn.datasets import load_wine
from sklearn.metrics import accuracy_score
from sklearn.model_selection import train_test_split


def get_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model-dir", default=os.getenv("AIP_MODEL_DIR", "model"))
    parser.add_argument("--boost-rounds", type=int, default=20)
    parser.add_argument("--max-depth", type=int, default=3)
    parser.add_argument("--learning-rate", type=float, default=0.3)
    return parser.parse_args()


def main() -> None:
    args = get_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    inputs, kinds = load_wine(return_X_y=True)
    train_inputs, test_inputs, train_kinds, test_kinds = train_test_split(
        inputs, kinds, test_size=0.3, stratify=kinds, random_state=7
    )

    logging.info("Training on %d wines", len(train_kinds))
    parameters = {
        "objective": "multi:softmax",
        "num_class": 3,
        "max_depth": args.max_depth,
        "learning_rate": args.learning_rate,
    }
    dtest = xgb.DMatrix(test_inputs, label=test_kinds)
    booster = xgb.train(
        parameters,
        xgb.DMatrix(train_inputs, label=train_kinds),
        num_boost_round=args.boost_rounds,
        evals=[(dtest, "test")],
        verbose_eval=20,
    )

    accuracy = accuracy_score(test_kinds, booster.predict(dtest))
    hypertune.HyperTune().report_hyperparameter_tuning_metric("accuracy", accuracy, args.boost_rounds)
    logging.info("accuracy: %.3f", accuracy)

    # On Vertex AI the bucket gs://NAME is also the folder /gcs/NAME.
    folder = Path(args.model_dir.replace("gs://", "/gcs/", 1))
    folder.mkdir(parents=True, exist_ok=True)
    booster.save_model(folder / "model.bst")  # the name that Vertex AI's container for predictions looks for
    (folder / "metrics.json").write_text(json.dumps({"accuracy": accuracy}))


if __name__ == "__main__":
    main()
