"""Run a command and write its usage: `launch.py USAGE.json COMMAND...`.

A process that is started counts the memory of the one that starts it as its own peak, up to the
moment of its exec; so the one that starts it must be small. This one is.
"""

import json
import os
import sys
import time

start = time.perf_counter()
pid = os.posix_spawn(sys.argv[2], sys.argv[2:], os.environ)
# wait4 gives this child's own usage; RUSAGE_CHILDREN would give the maximum over all
_, status, usage = os.wait4(pid, 0)
found = {
    "wall": time.perf_counter() - start,
    "cpu": usage.ru_utime + usage.ru_stime,
    "megabytes": usage.ru_maxrss / (1 << 20 if sys.platform == "darwin" else 1 << 10),
}
with open(sys.argv[1], "w", encoding="utf-8") as f:
    json.dump(found, f)
if code := os.waitstatus_to_exitcode(status):
    sys.exit(f"exit code {code}")  # a negative one is a signal
