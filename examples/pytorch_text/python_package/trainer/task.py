"""The command line of the trainer."""

import argparse

from trainer import experiment


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--num-epochs", type=int, default=20)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--learning-rate", type=float, default=0.001)
    parser.add_argument("--weight-decay", type=float, default=0.01)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--hp-tune", type=lambda text: text == "y", default=False, metavar="y|n")
    return parser.parse_args()


def main() -> None:
    accuracy = experiment.run(parse_args())
    print(f"accuracy {accuracy:.3f} of the best epoch, on sentences that were held out", flush=True)


if __name__ == "__main__":
    main()
