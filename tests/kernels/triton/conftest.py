from __future__ import annotations

import os
from importlib.util import find_spec

# Triton decides when it is imported whether it compiles or interprets. So the tests of the folder run in a
# process of their own, which test_interpreter.py starts.
collect_ignore = [] if os.environ.get("TRITON_INTERPRET") == "1" else ["interpreted"]

if find_spec("triton") is None:  # an optional extra, for Linux only
    collect_ignore = ["interpreted", "test_interpreter.py", "test_ahead_of_time.py"]
