"""`python -m termweave`, for launchers such as torchrun."""

from termweave.cli import main

main()
