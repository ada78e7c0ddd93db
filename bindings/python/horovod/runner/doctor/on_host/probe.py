# SPDX-License-Identifier: Apache-2.0
"""The probe of `horovodrun doctor` on one host: does what ../examination.py orders. Standard library only, see agents/remote.py.

Orders, each answered by a message of the same name:
  look     facts about the host, and what a rank of this user would find here
  clock    the time here
  connect  tries every address of other probes;  half_open: whose connections to here get no answer through
  send     sends data to another probe for a moment
It ends when its standard input does, and in any case after the time that `look` gives it.
"""

import json
import os
import select
import signal
import subprocess
import sys
import time

import facts
import frames
import links
import processes

_MARK = "\x01hvd doctor\x01"
_EVER = 60  # seconds until the first order says how long


class Probe:
    """Answers orders, one after the other."""

    def __init__(self, channel):
        self._channel = channel
        self._token, self._listener = b"", None

    def run(self):
        while True:
            select.select([self._channel.reader], [], [])
            arrived = self._channel.receive()
            if arrived is None:
                return
            for kind, payload in arrived:
                if kind == frames.MESSAGE:
                    self._obey(frames.read_message(payload))

    def _obey(self, order):
        for name, do in (
            ("look", self._look),
            ("clock", self._clock),
            ("connect", self._connect),
            ("half_open", self._half_open),
            ("send", self._send_data),
        ):
            if name in order:
                self._answer(**{name: do(order[name])})

    def _answer(self, **message):
        self._channel.send(**message)
        while self._channel.pending and not self._channel.broken:
            select.select([], [self._channel.writer], [])
            self._channel.flush()

    def _look(self, order):
        signal.alarm(order["lifetime"])
        found = facts.collect(order["interfaces"])
        found["cwd"] = os.path.isdir(order["cwd"])
        found["rank"] = rank_view(
            order["view"],
            order["environment"],
            order["without"],
            order["cwd"] if found["cwd"] else os.path.expanduser("~"),
            order["limit"],
        )
        self._token = bytes.fromhex(order["token"])
        self._listener = links.Listener(self._token, order["number"])
        found["port"] = self._listener.port
        return found

    def _clock(self, order):
        return time.time()

    def _connect(self, order):
        return links.connect_all(self._token, order["targets"], order["limit"])

    def _half_open(self, order):
        return self._listener.half_open()

    def _send_data(self, order):
        return links.send(
            self._token, order["target"], order["address"], order["seconds"], order["most"], order["limit"]
        )


def rank_view(source, environment, without, folder, limit):
    """What ../ranks/view.py says, run as a rank would be: same Python, environment and folder. Or {"problem": why}."""
    base = {name: value for name, value in os.environ.items() if name not in without}
    base.update(environment)
    base["PWD"] = folder
    me = os.getpid()
    try:
        done = subprocess.run(
            [sys.executable, "-c", source, _MARK],
            cwd=folder,
            env=base,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            timeout=limit,
            preexec_fn=lambda: processes.die_with_parent(me),
        )
    except subprocess.TimeoutExpired:
        return {"problem": f"a Python that looks for horovod took longer than {limit:g} s"}
    except OSError as error:
        return {"problem": f"{sys.executable}: {error.strerror}"}
    text, mark, found = done.stdout.decode("utf-8", "replace").rpartition(_MARK)
    if mark:
        try:
            return json.loads(found)
        except ValueError:
            pass  # died while it wrote
    said = (done.stderr.decode("utf-8", "replace").strip().splitlines() or ["nothing"])[-1]
    return {"problem": f"a Python that looks for horovod ended with {done.returncode} and said: {said[:200]}"}


def main():
    """Called by the program that remote.py sends: standard input and output are the channel to the launcher."""
    signal.alarm(_EVER)
    channel = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    processes.set_name("hvd-doctor")
    Probe(frames.Channel(*channel)).run()
