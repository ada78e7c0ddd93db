# SPDX-License-Identifier: Apache-2.0
"""Signals that reach horovodrun and only pass through it to the ranks. Standard library only, see frames.py."""

import signal

import processes


def forward(number, ranks):
    """Sends it to these processes; whether they end, go on or do something about it is theirs."""
    for pid in ranks:
        if number == signal.SIGCONT:
            processes.send(pid, number, to_group=True)
        elif number == signal.SIGTSTP:
            # The kernel keeps the default action of SIGTSTP from a session that no terminal's shell looks after, as theirs is.
            if catches(pid, number):
                processes.send(pid, number)
            else:
                processes.send(pid, signal.SIGSTOP, to_group=True)
        elif number != signal.SIGUSR1 or catches(pid, number):  # SIGUSR1 is a question to horovodrun, too, and must not end a rank
            processes.send(pid, number)  # not to its children, most of which such a signal would end


def catches(pid, number):
    """Whether the process has a handler for this signal."""
    try:
        with open(f"/proc/{pid}/status") as file:
            masks = [line.split()[1] for line in file if line.startswith("SigCgt:")]
    except OSError:
        return False
    return bool(masks) and bool(int(masks[0], 16) >> (number - 1) & 1)
