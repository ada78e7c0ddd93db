# SPDX-License-Identifier: Apache-2.0
"""A look at the ranks of this host: what each has done last, what it is in now, how its process is, and its stacks.

Taking stacks waits for processes and tools, so a child of the guardian looks, and writes one JSON object into a pipe. Standard
library only, see frames.py.
"""

import json
import os
import signal
import time

import flight
import process_facts
import processes
import stack_text
import stacks

_SAMPLE = 0.2  # seconds over which the computing time of the ranks is measured
_BUSY = 0.3  # the share of one core from which on a process computes, rather than waits
_TOOLS_LIMIT = 14.0  # seconds for the stacks of all ranks of a host; the guardian gives a look up after 20
_JAVA = ("java",)


class Seen:
    """One rank as it is looked at: ``number`` as the launcher numbers it, ``pid`` of the process that the guardian has started."""

    def __init__(self, children, number, pid, descriptor, stack_file):
        self.number, self.pid, self.stack_file = number, pid, stack_file
        self.flight = flight.with_ages(descriptor)
        self.called = self.flight is not None
        self.process = process_facts.Process(self._choose(children))
        self.busy = None
        self.was_running = self.process.state == "R"  # when this look began
        self.stack = None
        self.question = None

    def _choose(self, children):
        """The process that the rank is about: a shell may have started it."""
        known = stacks.heads(self.stack_file)
        self.called = self.called or bool(known)
        told = [self.flight["pid"]] if self.flight else []
        family = [self.pid, *processes.descendants(self.pid, children)]
        for pid in told + sorted(known, reverse=True):
            if pid in family:
                return pid
        for pid in family:
            if process_facts.uses_library(pid):
                return pid
        # No library yet: the first process that is no shell around another one.
        for pid in family:
            if os.path.basename(process_facts.executable(pid)) not in ("sh", "dash", "bash", "zsh", "env", "timeout", "nice", "taskset", "numactl"):
                return pid
        return self.pid

    def facts(self):
        """What the launcher is told."""
        told = {"rank": self.number, "pid": self.pid, "process": self.process.pid, "name": processes.name_of(self.process.pid),
                "state": self._state(), "called_init": self.called, "flight": self.flight, "stack": self.stack}
        if self.process.state in "SDI":
            told["kernel"] = process_facts.kernel_place(self.process.pid)
        if self.busy is not None:
            told["busy"] = round(self.busy, 2)
        return told

    def _state(self):
        letter = self.process.state
        if letter in "SIR":
            # On a busy machine a process that computes gets little time, and yet is ready to run whenever it is looked at.
            computes = (self.busy or 0.0) >= _BUSY or (letter == "R" and self.was_running)
            return "computing" if computes else "waiting"
        return {"T": "stopped", "t": "held by a debugger", "D": "blocked in the kernel"}.get(letter, "gone")


def look(ranks, with_stacks):
    """Facts of each rank. ``ranks``: (number, pid, descriptor of its flight memory, stack file); ``with_stacks``: numbers."""
    children = processes.living_children()
    seen = [Seen(children, *rank) for rank in ranks]
    before = {one: one.process for one in seen}
    time.sleep(_SAMPLE)
    for one in seen:
        one.process = process_facts.Process(one.process.pid)
        if one.process.lives and before[one].lives:
            one.busy = (one.process.cpu - before[one].cpu) / _SAMPLE
    _take_stacks([one for one in seen if one.number in with_stacks])
    return [one.facts() for one in seen]


def _take_stacks(seen):
    give_up = time.monotonic() + _TOOLS_LIMIT
    for one in seen:
        one.question = stacks.Question(one.stack_file, one.process)
    stacks.ask([one.question for one in seen])
    for one in seen:
        one.stack = _stack_of(one, give_up)


def _stack_of(one, give_up):
    if one.question.refused is None:
        text = one.question.text()
        lines, left_out = stack_text.shorten(text, "python", one.question.main_thread)
        if lines:
            return {"language": "Python", "lines": lines, "left_out": left_out, "file": one.stack_file}
        why = f"it has not written its Python stack within {stacks.ANSWER_LIMIT:g} s"
    else:
        why = one.question.refused
    if not one.process.answers:
        return {"why": why}
    is_java = os.path.basename(process_facts.executable(one.process.pid)) in _JAVA
    take, language, name = (stacks.of_java, "java", "Java") if is_java else (stacks.of_native, "native", "native")
    text, why_not = take(one.process.pid, one.stack_file, give_up - time.monotonic())
    lines, left_out = stack_text.shorten(text, language)
    if lines:
        return {"language": name, "lines": lines, "left_out": left_out, "file": one.stack_file, "why": None if is_java else why}
    return {"why": f"{why_not or 'no stack'}" if is_java else f"{why}; {why_not or 'no native frames were found'}"}


def start(ranks, with_stacks):
    """Looks in a child of this process, which has one thread: the child, as a descriptor of it and the end of a pipe to read from."""
    reader, writer = os.pipe()
    parent = os.getpid()
    try:
        pid = os.fork()
    except OSError:
        os.close(reader)
        os.close(writer)
        raise
    if pid == 0:
        code = 1
        try:
            processes.die_with_parent(parent)
            processes.set_name("hvd-look")
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGCHLD, signal.SIGTERM):
                signal.signal(number, signal.SIG_DFL)
            text = json.dumps(look(ranks, with_stacks)).encode()
            with open(writer, "wb") as file:
                file.write(text)
            code = 0
        finally:
            os._exit(code)
    os.close(writer)
    os.set_blocking(reader, False)
    return os.pidfd_open(pid), reader
