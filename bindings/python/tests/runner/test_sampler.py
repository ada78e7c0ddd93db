# SPDX-License-Identifier: Apache-2.0
"""What the sampler says of real processes that compute, sleep, wait for a core, wait for the GIL, touch memory and send."""

import json
import os
import socket
import subprocess
import sys
import textwrap
import threading
import time

import pytest

from horovod.runner import on_host

sys.path.insert(0, on_host.FOLDER)  # its modules are plain ones, see on_host/__init__.py
import sampler  # noqa: E402
import tcp_links  # noqa: E402

SECONDS = 0.6


@pytest.fixture
def child():
    """Starts Python programs and ends them."""
    started = []

    def start(text):
        process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(text)], stdout=subprocess.PIPE, start_new_session=True)
        started.append(process)
        assert process.stdout.readline() == b"ready\n"
        return process.pid

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()


def _sample(*pids):
    taker = sampler.Sampler(dict(enumerate(pids)))
    assert taker.take() == {}
    time.sleep(SECONDS)
    return taker.take()


def test_a_process_that_computes_runs_and_one_that_sleeps_does_not(child):
    burns = child("print('ready', flush=True)\nwhile True: pass")
    sleeps = child("import time\nprint('ready', flush=True)\nwhile True: time.sleep(0.02)")
    found = _sample(burns, sleeps)
    span = found[0]["at"] - found[0]["since"]
    one, other = (found[rank]["threads"][0] for rank in (0, 1))
    assert one["cpu"] + one["queued"] > 0.8 * span  # other work of this machine may take its core
    assert other["cpu"] < 0.3 * span and other["slept"] >= 5 and one["slept"] <= other["slept"]
    assert found[0]["machine"]["busy"] >= one["cpu"] * 0.8


def test_a_process_without_a_core_for_itself_is_queued(child):
    core = min(os.sched_getaffinity(0))
    program = f"import os\nos.sched_setaffinity(0, [{core}])\nprint('ready', flush=True)\nwhile True: pass"
    found = _sample(child(program), child(program))
    for sample in found.values():
        main = sample["threads"][0]
        assert main["queued"] > 0.2 * (sample["at"] - sample["since"]) and main["pushed"] > 0


def test_a_thread_that_holds_the_gil_is_listed_and_the_main_thread_asks_for_it(child):
    pid = child("""
        import threading, time
        def hog():
            while True: pass
        threading.Thread(target=hog, daemon=True).start()
        print('ready', flush=True)
        while True: time.sleep(0.001)
    """)
    (sample,) = _sample(pid).values()
    main, hog = sample["threads"][:2]
    assert main["thread"] == pid and main["cpu"] < hog["cpu"]
    assert hog["cpu"] + hog["queued"] > 0.6 * (sample["at"] - sample["since"])
    assert main["slept"] > 15


def test_fresh_memory_is_page_faults(child):
    pid = child("""
        import mmap
        print('ready', flush=True)
        while True:
            with mmap.mmap(-1, 8 << 20) as memory:
                memory.madvise(mmap.MADV_NOHUGEPAGE)
                for page in range(0, 8 << 20, 4096):
                    memory[page] = 1
    """)
    (sample,) = _sample(pid).values()
    main = sample["threads"][0]
    assert main["minor"] > 1000 and 0 < main["system"] <= main["cpu"]


def test_links_count_what_a_connection_carries():
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as sender:
        receiver, _ = server.accept()
        taker = sampler.Sampler({0: os.getpid()})
        taker.take()
        reading = threading.Thread(target=_read, args=(receiver, 20 << 20))
        reading.start()
        sender.sendall(bytes(20 << 20))
        reading.join()
        (sample,) = taker.take().values()
        names = ["%s:%d" % end.getsockname() for end in (sender, receiver)]
        links = {link["local"]: link for link in sample["links"]}
        receiver.close()
    if not sample["links"]:
        pytest.skip("this kernel does not tell of TCP connections (sock_diag)")
    assert links[names[0]]["peer"] == names[1] and links[names[0]]["acked"] == links[names[1]]["received"] == 20 << 20
    assert links[names[0]]["busy"] > 0 and links[names[0]]["sent"] > 100 and links[names[1]]["sent"] == 0


def _read(connection, size):
    while size > 0:
        size -= len(connection.recv(1 << 20))


def test_a_process_that_has_ended_gets_no_more_samples_and_the_others_do():
    short = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    taker = sampler.Sampler({0: short.pid, 1: os.getpid()})
    taker.take()
    short.kill()
    short.wait()
    short.stdin.close()
    assert set(taker.take()) == {1} and set(taker.take()) == {1}


def test_threads_that_begin_and_end_between_samples_do_no_harm():
    taker = sampler.Sampler({0: os.getpid()})
    taker.take()
    for _ in range(12):
        threads = [threading.Thread(target=time.sleep, args=(0.01,)) for _ in range(8)]
        for thread in threads:
            thread.start()
        sample = taker.take()[0]
        for thread in threads:
            thread.join()
        assert sample["threads"][0]["thread"] == os.getpid()
        assert all(value >= 0 for row in sample["threads"] for value in row.values() if isinstance(value, int))
        json.dumps(sample)


def test_a_sample_costs_little():
    threads = [threading.Thread(target=time.sleep, args=(3,), daemon=True) for _ in range(40)]
    for thread in threads:
        thread.start()
    taker = sampler.Sampler({0: os.getpid()})
    taker.take()
    begin = time.thread_time()
    for _ in range(8):
        taker.take()
    assert (time.thread_time() - begin) / 8 < 0.010  # of a core, twice a second: 2 % at most


def test_messages_of_the_kernel_that_are_cut_off_are_no_links():
    assert tcp_links.link_of(b"") is None and tcp_links.link_of(bytes(71)) is None
    whole = bytes([socket.AF_INET]) + bytes(71)
    assert tcp_links.link_of(whole) is None  # no counters
    assert tcp_links.link_of(whole + b"\x02\x00\x02\x00") is None  # a length that cannot be
    assert tcp_links.link_of(whole + b"\xe0\x00\x02\x00" + bytes(220)).key == ("0.0.0.0:0", "0.0.0.0:0")
