# SPDX-License-Identifier: Apache-2.0
"""The stacks of a process: of Python, of Java, or native ones. Each waits for the process or for a tool, so a process of its own
does that (looking.py). Standard library only, see frames.py.

A Python process that has called hvd.init() writes its stacks itself when it gets a signal (horovod/common/stacks.py), and says
so in the first line of its file. The signal is sent only while the kernel says that the process catches it.
"""

import os
import re
import time

import process_facts
import processes

VARIABLE = "HOROVOD_STACK_FILE"
_HEAD = re.compile(r"^signal (\d+) of process (\d+), whose main thread is (0x[0-9a-f]+)$", re.MULTILINE)
_ENOUGH = 1 << 20  # bytes of old stacks that are kept in a file
_LONGEST = 1 << 18  # of one answer
ANSWER_LIMIT = 2.0  # seconds: a process that computes answers in milliseconds, one on a busy machine when its turn comes
_TOOL_LIMIT = 10.0


def path(folder, rank):
    """Where a rank writes them."""
    return os.path.join(folder, f"stack.{rank}")


def heads(file):
    """{process: (signal, main thread)} of the processes that write to this file when asked."""
    try:
        with open(file, "rb") as opened:
            text = opened.read(_ENOUGH + _LONGEST).decode("utf-8", "replace")
    except OSError:
        return {}
    return {int(pid): (int(number), thread) for number, pid, thread in _HEAD.findall(text) if 0 < int(number) <= 64}


def have_been_taken(file):
    """Whether a file has more in it than who would write there."""
    try:
        with open(file, "rb") as opened:
            return bool(_HEAD.sub("", opened.read(_ENOUGH).decode("utf-8", "replace")).strip())
    except OSError:
        return False


class Question:
    """Asks a process for its Python stacks. ``refused`` says why it cannot be asked; then it never answers."""

    def __init__(self, file, process):
        self._file, self._pid = file, process.pid
        known = heads(file)
        self._number, self.main_thread = known.get(process.pid, (0, ""))
        self.refused = None
        if not self._number:
            self.refused = "no Python that has called hvd.init()"
        elif not process.answers:
            self.refused = "its Python stack cannot be taken while it is " + (
                "blocked in the kernel" if process.state == "D" else "stopped" if process.state in "Tt" else "gone")
        elif not process_facts.has(process_facts.signal_masks(self._pid).get("SigCgt", 0), self._number):
            self.refused = f"it does not catch signal {self._number} any more, so its Python stack cannot be taken"
        if self.refused is None:
            self._start(known)

    def _start(self, known):
        try:
            if os.path.getsize(self._file) > _ENOUGH:
                with open(self._file, "r+b") as file:
                    file.truncate(0)
                    for pid, (number, thread) in known.items():
                        file.write(f"signal {number} of process {pid}, whose main thread is {thread}\n".encode())
            self._from = os.path.getsize(self._file)
        except OSError as error:
            self.refused = f"its Python stack cannot be read: {error.strerror}"
            return
        self._others = process_facts.threads_that_block(self._pid, self._number)
        processes.send(self._pid, self._number)

    def answered(self):
        """Whether everything has been written: the kernel blocks the signal in the thread that writes until it is done."""
        if self._size() <= self._from:
            return False
        if process_facts.has(process_facts.signal_masks(self._pid).get("ShdPnd", 0), self._number):
            return False
        return not process_facts.threads_that_block(self._pid, self._number) - self._others

    def text(self):
        """What has been written so far."""
        try:
            with open(self._file, "rb") as file:
                file.seek(self._from)
                return file.read(_LONGEST).decode("utf-8", "replace")
        except OSError:
            return ""

    def _size(self):
        try:
            return os.path.getsize(self._file)
        except OSError:
            return 0


def ask(questions):
    """Waits until all that could be asked have answered, or the time is over."""
    deadline = time.monotonic() + ANSWER_LIMIT
    waiting = [question for question in questions if question.refused is None]
    while waiting and time.monotonic() < deadline:
        time.sleep(0.005)
        waiting = [question for question in waiting if not question.answered()]


def of_java(pid, save_to, limit):
    """The thread dump of a Java process as text, and why there is none. ``limit``: seconds that are left for it."""
    folder = os.path.dirname(process_facts.executable(pid))
    for tool, arguments in (("jstack", [str(pid)]), ("jcmd", [str(pid), "Thread.print"])):
        program = os.path.join(folder, tool)
        if os.access(program, os.X_OK):
            return _run([program, *arguments], save_to, limit)
    return "", f"neither jstack nor jcmd is beside its java in {folder or '?'}: a JDK has them, a runtime alone does not"


def of_native(pid, save_to, limit):
    """The native frames of a process as text, and why there are none. ``limit``: seconds that are left for it."""
    import shutil

    if shutil.which("eu-stack"):
        return _run(["eu-stack", "-n", "24", "-p", str(pid)], save_to, limit)
    if shutil.which("gdb"):
        return _run(["gdb", "-nx", "-batch", "-iex", "set debuginfod enabled off", "-p", str(pid), "-ex", "thread apply all backtrace 24"], save_to, limit)
    return "", "its native frames need gdb or eu-stack (Debian: gdb, elfutils) on its host"


def _run(command, save_to, left):
    import subprocess

    name, limit = os.path.basename(command[0]), min(left, _TOOL_LIMIT)
    if limit < 1.0:
        return "", f"{name} was not started, because the other ranks of the host took all the time"
    own = os.getpid()
    environment = {**os.environ, "DEBUGINFOD_URLS": ""}
    environment.pop("LD_PRELOAD", None)
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=limit,
                              env=environment, preexec_fn=lambda: processes.die_with_parent(own))
    except subprocess.TimeoutExpired:
        return "", f"{name} had no answer from it within {limit:.0f} s"
    except OSError as error:
        return "", f"{name} cannot be started: {error.strerror}"
    text = done.stdout.decode("utf-8", "replace")
    try:
        with open(save_to, "a") as file:
            file.write(text)
    except OSError:
        pass
    if done.returncode != 0:
        said = text.strip().splitlines()
        return "", f"{name} failed" + (f": {said[-1]}" if said else "")
    return text[:_LONGEST], ""
