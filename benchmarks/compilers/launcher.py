"""Run a command and print what its process cost, as JSON.

The peak of a process that is started counts the memory of the one that starts it, so this one has to be small.
"""

import json
import resource
import subprocess
import sys
import time

started = time.perf_counter()
code = subprocess.call(sys.argv[1:], stdout=subprocess.DEVNULL)
seconds = time.perf_counter() - started
usage = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps({"code": code, "seconds": seconds, "cpu": usage.ru_utime + usage.ru_stime, "kib": usage.ru_maxrss}))
