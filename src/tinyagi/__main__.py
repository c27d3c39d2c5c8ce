"""`python -m tinyagi` is the `tinyagi` command."""

from tinyagi.cli.main import main

main()
