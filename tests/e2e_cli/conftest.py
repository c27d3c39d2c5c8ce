"""Collected only when the real programs are installed: `make e2e-cli` installs them and sets the variable."""

import os

from tests.e2e_cli.programs import FOLDER_VARIABLE

collect_ignore_glob = [] if FOLDER_VARIABLE in os.environ else ["test_*.py"]
