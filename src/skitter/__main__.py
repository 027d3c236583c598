"""`python -m skitter` is `skitter`."""

from skitter.cli.main import run

run()
