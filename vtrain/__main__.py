"""`python -m vtrain`."""

from vtrain.cli import run

if __name__ == "__main__":
    run()
