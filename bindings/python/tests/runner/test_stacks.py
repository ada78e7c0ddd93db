# SPDX-License-Identifier: Apache-2.0
"""Stacks of processes: whom a signal may be sent, and what is shown of a long stack."""

import importlib
import os
import signal
import subprocess
import sys
import time

import flight_writer  # noqa: F401  (its folder of plain modules is in the path then)
import pytest
from hosts_fixture import wait_until

stacks, stack_text, process_facts = map(importlib.import_module, ("stacks", "stack_text", "process_facts"))
NUMBER = signal.SIGRTMIN + 16
ARMED = """
import os, sys, time
os.environ["HOROVOD_STACK_FILE"] = sys.argv[1]
from horovod.common import stacks
stacks.arm()
def deep(n):
    deep(n - 1) if n else time.sleep(300)
deep(int(sys.argv[2]))
"""


@pytest.fixture
def process(request):
    """process(command): a running process that ends with the test."""
    made = []

    def start(*command):
        made.append(subprocess.Popen(command))
        return made[-1]

    yield start
    for one in made:
        one.kill()
        one.wait()


def question(file, pid):
    made = stacks.Question(str(file), process_facts.Process(pid))
    stacks.ask([made])
    return made


def test_a_process_that_does_not_catch_the_signal_gets_none(process, tmp_path):
    sleeper, file = process("sleep", "300"), tmp_path / "stack.0"
    for number in (NUMBER, signal.SIGKILL, signal.SIGTERM):
        file.write_text(f"signal {int(number)} of process {sleeper.pid}, whose main thread is 0x1\n")
        assert question(file, sleeper.pid).refused == f"it does not catch signal {int(number)} any more, so its Python stack cannot be taken"
    file.write_text(f"signal 0 of process {sleeper.pid}, whose main thread is 0x1\nsignal 99 of process {sleeper.pid}, whose main thread is 0x1\n")
    assert question(file, sleeper.pid).refused == "no Python that has called hvd.init()"
    assert question(tmp_path / "none", sleeper.pid).refused == "no Python that has called hvd.init()"
    time.sleep(0.1)
    assert sleeper.poll() is None


def test_an_armed_process_answers_again_and_again(process, tmp_path):
    file = tmp_path / "stack.0"
    armed = process(sys.executable, "-c", ARMED, str(file), "3")
    wait_until(lambda: file.exists() and process_facts.has(process_facts.signal_masks(armed.pid)["SigCgt"], NUMBER))
    for _ in range(5):
        wait_until(lambda: "in deep" in question(file, armed.pid).text())
    found = question(file, armed.pid)
    assert found.refused is None and found.text().count("most recent call first") == 1
    lines, left_out = stack_text.shorten(found.text(), "python", found.main_thread)
    assert lines[0] == "main thread, most recent call first:" and lines[1:5] == ['  File "<string>", line 7 in deep'] * 4 and left_out == 0
    armed.send_signal(signal.SIGSTOP)
    wait_until(lambda: process_facts.Process(armed.pid).state == "T")
    assert question(file, armed.pid).refused == "its Python stack cannot be taken while it is stopped"


def test_a_file_of_stacks_does_not_grow_for_ever(process, tmp_path):
    file = tmp_path / "stack.0"
    armed = process(sys.executable, "-c", ARMED, str(file), "3")
    wait_until(lambda: "in deep" in question(file, armed.pid).text())
    with open(file, "ab") as more:
        more.write(b"x" * stacks._ENOUGH)
    assert "in deep" in question(file, armed.pid).text() and file.stat().st_size < 10_000
    assert "in deep" in question(file, armed.pid).text()


def test_a_process_that_is_gone_is_told(tmp_path):
    assert process_facts.Process(2**22 + 1).state == process_facts.GONE
    assert not process_facts.Process(2**22 + 1).lives and process_facts.signal_masks(2**22 + 1) == {}
    file = tmp_path / "stack.0"
    file.write_text(f"signal {int(NUMBER)} of process {2**22 + 1}, whose main thread is 0x1\n")
    assert question(file, 2**22 + 1).refused == "its Python stack cannot be taken while it is gone"


def frames(name, count):
    return "".join(f'  File "{name}", line {number} in f{number}\n' for number in range(count))


def test_long_stacks_are_shortened():
    library = "/usr/lib/python3.11/threading.py"
    text = "".join([
        "Thread 0x00a1 (most recent call first):\n", frames(library, 3), "\nThread 0x00a2 (most recent call first):\n",
        frames("/app/loader.py", 9), "\nCurrent thread 0x00a3 (most recent call first):\n", frames("/app/train.py", 50),
        "\nThread 0x00a4 [pool] (most recent call first):\n", frames(library, 1), frames("/app/train.py", 1)])
    lines, left_out = stack_text.shorten(text, "python", "0x00a3")
    assert lines[0] == "main thread, most recent call first:" and left_out == 1
    assert lines[10:13] == ['  File "/app/train.py", line 9 in f9', "  ... 39 more", '  File "/app/train.py", line 49 in f49']
    assert lines[13] == "thread 0x00a2, most recent call first:" and lines[18].endswith("line 8 in f8") and lines[19].startswith("thread pool, ")
    assert stack_text.shorten(text + "\n" + text, "python", "0x00a3") == (lines, left_out)  # two have asked at the same time
    assert stack_text.shorten("", "python") == ([], 0) and stack_text.shorten("nonsense\n\n\0", "native") == ([], 0)


GDB = """[New LWP 8]
warning: something
Thread 2 (Thread 0x7f01 (LWP 8) "worker"):
#0  0x1 in epoll_wait ()
Thread 1 (Thread 0x7f00 (LWP 7) "main"):
#0  0x2 in read ()
#1  0x3 in main ()
"""
EU_STACK = "PID 7 - process\nTID 7:\n#0 0x2 read\n#1 0x3 main\nTID 8:\n#0 0x1 epoll_wait\n"


@pytest.mark.parametrize("text, first", [(GDB, "  #0  0x2 in read ()"), (EU_STACK, "  #0 0x2 read")])
def test_native_frames_of_the_main_thread_are_shown(text, first):
    lines, left_out = stack_text.shorten(text, "native")
    assert lines[:2] == ["main thread, most recent call first:", first] and len(lines) == 3 and left_out == 1


@pytest.mark.parametrize("is_taken", [False, True])
def test_the_signal_is_left_to_a_program_that_uses_it(tmp_path, is_taken):
    use = "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGRTMIN + 16])\n" if is_taken else ""
    subprocess.run([sys.executable, "-c", use + ARMED.replace("time.sleep(300)", "None"), str(tmp_path / "file"), "0"], check=True)
    assert os.path.exists(tmp_path / "file") != is_taken
