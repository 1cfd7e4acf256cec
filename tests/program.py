"""Which Postroom the tests start where they start a process: this checkout, or one that is installed elsewhere.

`TESTED_POSTROOM=/path/to/bin/postroom` names an installed one: so the tests of whole processes try a package.
"""

import os
import sys

VARIABLE = "TESTED_POSTROOM"

INSTALLED = os.environ.get(VARIABLE)

PROGRAM = [INSTALLED] if INSTALLED else [sys.executable, "-m", "postroom"]
"""The command, to be followed by its arguments."""
