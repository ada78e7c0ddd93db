# SPDX-License-Identifier: Apache-2.0
"""Jobs in which one rank fails, each in another way: does horovodrun name that one?

    python blame_runs.py --runs 200 [--seed 1] [--torch]

Prints every run that went wrong with what horovodrun said, and the count; the exit code is 1 if there was one.
"""

import argparse
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

# How the victim fails, and the exit code of horovodrun after that.
FAULTS = {
    "raise": ("raise RuntimeError('planned')", 1),
    "exit": ("sys.exit(3)", 3),
    "leave": ("os._exit(4)", 4),
    "kill": ("os.kill(os.getpid(), signal.SIGKILL)", 137),
    "crash": ("os.kill(os.getpid(), signal.SIGSEGV)", 139),
    "interrupt": ("os.kill(os.getpid(), signal.SIGINT); time.sleep(5)", 130),
}
# What every rank does at its end, after it has left the job, and how the others take the news.
ENDS = {"": "", "slow": "atexit.register(time.sleep, 0.4)", "stopped": "if rank == victim: atexit.register(time.sleep, 9)"}
OTHERS = ("raise", "sys.exit(6)", "os._exit(7)")
HOSTS = (["-np", "3"], ["-np", "2"], ["-H", "127.0.0.2:1,127.0.0.3:2"])
PROGRAM = """
import atexit, os, signal, sys, time
import {module} as hvd
import numpy as np
rank, victim, fault, slow, others = int(os.environ["HOROVOD_RANK"]), {victim}, {fault!r}, {slow!r}, {others!r}
exec(slow)
hvd.init()
tensor = {tensor}
for step in range(30):
    if rank == victim and step == 20:
        exec(fault)
    try:
        hvd.allreduce(tensor, name="gradient")
    except hvd.HorovodInternalError:
        exec(others)
"""


def run_one(choose, folder, torch=False):
    """One job; the text of what went wrong, or None."""
    fault, slow, others, hosts = choose.choice(list(FAULTS)), choose.choice(list(ENDS)), choose.choice(OTHERS), choose.choice(HOSTS)
    victim = choose.randrange(2 if hosts[1] == "2" else 3)
    what, code = FAULTS[fault]
    module, tensor = ("horovod.torch", "__import__('torch').ones(1000)") if torch else ("horovod", "np.ones(1000, 'f4')")
    text = PROGRAM.format(module=module, victim=victim, fault=what, slow=ENDS[slow], others=others, tensor=tensor)
    program = Path(folder) / "program.py"
    program.write_text(text)
    command = [sys.executable, "-m", "horovod.runner", *hosts, sys.executable, str(program)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
    named = re.search(r"^horovodrun: rank (\d+) failed first", done.stderr, re.MULTILINE)
    # A rank that is stopped while it ends cannot give its own code, unless an exception has told it.
    codes = {code, 143} if slow == "stopped" and fault == "exit" else {code}
    if named and int(named.group(1)) == victim and done.returncode in codes:
        return None
    return f"rank {victim} failed by {fault} (end: {slow or 'plain'}, others: {others}, {' '.join(hosts)}), exit code {done.returncode}:\n{done.stderr}"


def run(count, seed, torch=False):
    """The texts of those of so many jobs that went wrong."""
    choose, wrong = random.Random(seed), []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(count):
            trouble = run_one(choose, folder, torch)
            if trouble:
                wrong.append(trouble)
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--torch", action="store_true")
    args = parser.parse_args()
    # A shell's `command &` leaves it ignored, which ranks would inherit that are to fail by it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    began = time.monotonic()
    wrong = run(args.runs, args.seed, args.torch)
    print("\n".join(wrong))
    print(f"{args.runs} runs from seed {args.seed}, {len(wrong)} wrong, {time.monotonic() - began:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
