"""The command, as `python -m anarchon_beat`."""

import sys

from anarchon_beat.cli import main

sys.exit(main())
