#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Do `horovodrun report` and the live table name the right rank and cause, and the right gain? Eight causes, injected for real.

    run.py [--trials 20] [--seed 1] [--cause NAME ...] [--keep FOLDER]
    run.py --again FOLDER

Four ranks train (worker.py). In each trial one of them, chosen by the seed, is slowed by one cause for a phase; before and after it the
same ranks train without the cause. The report sees the phase with the cause only. It is right about the gain if the time per step that
it predicts to be saved is within 15 % of what the phases without the cause have really saved. Where those two phases differ by more
than 10 %, something else has disturbed the machine meanwhile, and nobody knows what was saved: such a trial is not `steady`, and counts
for rank and class only.

The causes of the network need root: the ranks live in network namespaces (tests/hosts/network.py). A link is slow by tc's token bucket
at both ends of a host's cable, and lossy by iptables' random drops, because not every kernel has netem.
"""

import argparse
import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "tests" / "hosts"))
from network import Network, available

from horovod.runner.live import window
from horovod.runner.report import analysis, causes

LOCAL = [causes.SLOW_COMPUTE, causes.BUSY_NEIGHBOUR, causes.GIL_HOG, causes.SLEEPING_LOADER, causes.STORM, causes.PAGE_FAULTS]
NETWORK = [causes.SLOW_LINK, causes.LOSSY_LINK]
RANKS, STEPS, STEPS_AROUND = 4, 60, 30
SLOW_RATE, LOSS = "400mbit", "0.02"
LIMIT = 60.0  # seconds for a phase


class Cable:
    """The network of one host of a Network, made worse and good again."""

    def __init__(self, net):
        self._net, self._undo = net, []

    def slow(self, host):
        port = f"h{host}-0"
        for enter, device in ((self._net.enter(host), "eth0"), (self._net.enter_switch(), port)):
            subprocess.run(
                [*enter, "tc", "qdisc", "add", "dev", device, "root", "tbf", "rate", SLOW_RATE, "burst", "128kb", "latency", "100ms"],
                check=True,
            )
            self._undo.append([*enter, "tc", "qdisc", "del", "dev", device, "root"])

    def lose(self, host):
        for where in range(RANKS):
            sources = (
                [self._net.addresses(other, 4)[0] for other in range(RANKS) if other != host]
                if where == host
                else self._net.addresses(host, 4)
            )
            for source in sources:
                rule = ["INPUT", "-s", source, "-m", "statistic", "--mode", "random", "--probability", LOSS, "-j", "DROP"]
                subprocess.run([*self._net.enter(where), "iptables", "-w", "-A", *rule], check=True)
                self._undo.append([*self._net.enter(where), "iptables", "-w", "-D", *rule])

    def mend(self):
        for command in self._undo:
            subprocess.run(command, check=True)
        self._undo = []


def plan_of(trials, rng):
    """The phases of these (cause, rank), three for each trial."""
    phases = []
    cores = sorted(os.sched_getaffinity(0))
    for number, (cause, rank) in enumerate(trials):
        alone = rng.choice(cores)
        rest = [core for core in cores if core != alone] or cores
        places = [[alone] if which == rank else rest for which in range(RANKS)]
        for name in ("before", "with", "after"):
            with_it = name == "with"
            phases.append(
                {
                    "name": f"{number}.{name}",
                    "cause": cause if with_it else None,
                    "steps": STEPS if with_it else STEPS_AROUND,
                    "rank": rank,
                    "cores": places,
                }
            )
    return phases


def serve(folder, phases, job, cable):
    """Makes the network worse for the phases that ask for it."""
    for number, phase in enumerate(phases):
        deadline = time.monotonic() + LIMIT
        while not (folder / f"want.{number}").exists():
            if job.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the ranks ended with {job.poll()} before phase {number} of {folder}")
            time.sleep(0.01)
        if cable is not None:
            cable.mend()
        if phase["cause"] == causes.SLOW_LINK:
            cable.slow(phase["rank"])
        if phase["cause"] == causes.LOSSY_LINK:
            cable.lose(phase["rank"])
        (folder / f"go.{number}").touch()


def run_job(folder, phases, net):
    """Runs the phases as one job; returns seconds of each."""
    folder.mkdir()
    (folder / "plan.json").write_text(json.dumps({"phases": phases}))
    command = [sys.executable, str(HERE / "worker.py"), str(folder)]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HOROVOD_")}
    launcher = [sys.executable, "-m", "horovod.runner", "-np", str(RANKS)]
    if net is None:
        job = subprocess.Popen([*launcher, *command], env=environment)
    else:
        hosts = ",".join(f"{name}:1" for name in net.host_names)
        job = net.popen(0, [*launcher, "-H", hosts, *command], {"HOROVOD_SSH_ARGS": f"-F {net.ssh_config}"})
    cable = net and Cable(net)
    try:
        serve(folder, phases, job, cable)
        if job.wait(LIMIT):
            raise RuntimeError(f"the ranks ended with {job.returncode}")
    finally:
        if cable is not None:
            cable.mend()
        if job.poll() is None:
            job.send_signal(signal.SIGTERM)
            job.wait(LIMIT)
    return json.loads((folder / "seconds.json").read_text())


def judge(folder, phases, seconds):
    """One row for each trial."""
    rows = []
    for first in range(0, len(phases), 3):
        before, with_it, after = seconds[first : first + 3]
        phase = phases[first + 1]
        place = folder / phase["name"]
        for rank in range(RANKS):
            shutil.copy(folder / f"samples.{rank}.jsonl", place / f"rank.{rank}" / "samples.jsonl")
        real = 1e3 * (with_it / STEPS - (before + after) / (2 * STEPS_AROUND))
        row = {"cause": phase["cause"], "rank": phase["rank"], "step": 1e3 * with_it / STEPS, "real": real, "folder": str(place)}
        row["steady"] = abs(before - after) <= 0.1 * min(before, after)
        rows.append({**row, **said(place)})
    return rows


def said(place):
    """What the report and the live table say of the records in a folder."""
    live = seen_live(place)
    told = {"live_rank": live.late, "live_cause": live.cause, "named_rank": None, "named_cause": None, "predicted": 0.0, "sentence": ""}
    for worst in analysis.analyse(str(place)).findings[:1]:
        told.update(named_rank=worst.rank, named_cause=worst.cause.name, predicted=worst.gain / 1e6, sentence=worst.sentence)
    return told


def seen_live(place):
    """What the live table would show at the end of the phase."""
    shown = window.Window()
    for rank in range(RANKS):
        folder = Path(place) / f"rank.{rank}"
        head, *rows = map(json.loads, (folder / "records.jsonl").read_text().splitlines())
        end = max(row["ended"] for row in rows)
        samples = [sample for sample in map(json.loads, (folder / "samples.jsonl").read_text().splitlines()[1:]) if sample["at"] <= end]
        shown.feed(window.News(rank, head["host"], end, rows, samples))
    shown.think()
    return shown.view()


def show(rows):
    """The table, and whether the goals are met."""

    def share(of, right):
        return f"{100 * sum(map(right, of)) / len(of):.0f} %" if of else "-"

    heads = "rank:>7 class:>7 live:>6 class:>7 steady:>7 saves:>9 predicted:>10 error:>7 15_%:>8".split()
    print(
        f"{'cause':24} {'trials':>6} "
        + " ".join(f"{name.replace('_', ' '):{width}}" for name, width in (head.split(":") for head in heads))
    )
    for cause in [*dict.fromkeys(row["cause"] for row in rows), None]:
        of = [row for row in rows if cause in (None, row["cause"])]
        steady = [row for row in of if row["steady"]]
        real, predicted, error = ("-", "-", "-")
        if steady:
            real, predicted = (f"{statistics.median(row[name] for row in steady):.1f} ms" for name in ("real", "predicted"))
            error = f"{100 * statistics.median(map(error_of, steady)):.0f} %"
        print(
            f"{cause or 'all':24} {len(of):6} {share(of, rank_right):>7} {share(of, cause_right):>7} "
            f"{share(of, live_right):>6} {share(of, live_cause_right):>7} {len(steady):7} {real:>9} "
            f"{predicted:>10} {error:>7} {share(steady, gain_right):>8}",
            flush=True,
        )
    return sum(map(rank_right, rows)) >= 0.95 * len(rows) and sum(map(cause_right, rows)) >= 0.8 * len(rows)


def rank_right(row):
    return row["named_rank"] == row["rank"]


def cause_right(row):
    return rank_right(row) and row["named_cause"] == row["cause"]


def live_right(row):
    return row["live_rank"] == row["rank"]


def live_cause_right(row):
    return live_right(row) and row["live_cause"] == row["cause"]


def error_of(row):
    """Of the predicted gain, relative to the real one."""
    return abs(row["predicted"] - row["real"]) / max(row["real"], 0.1)


def gain_right(row):
    return rank_right(row) and error_of(row) <= 0.15


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=20, help="of each cause")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cause", action="append", choices=LOCAL + NETWORK, help="only this cause; may be repeated")
    parser.add_argument("--batch", type=int, default=10, help="trials that one job makes")
    parser.add_argument("--keep", metavar="FOLDER", help="keep the records there, with rows.json")
    parser.add_argument("--again", metavar="FOLDER", help="run nothing, and judge what --keep has kept")
    args = parser.parse_args()
    if args.again:
        rows = json.loads((Path(args.again) / "rows.json").read_text())
        return 0 if show([{**row, **said(row["folder"])} for row in rows]) else 1
    chosen = args.cause or LOCAL + NETWORK
    if set(chosen) & set(NETWORK) and available():
        sys.exit(f"the network's causes cannot be injected here: {available()}; choose others by --cause")
    rng = random.Random(args.seed)
    rows = []
    with tempfile.TemporaryDirectory() as temporary:
        base = Path(args.keep or temporary)
        base.mkdir(parents=True, exist_ok=True)
        for group, net in ((LOCAL, None), (NETWORK, Network(hosts=RANKS))):
            trials = [(cause, rng.randrange(RANKS)) for cause in group if cause in chosen for _ in range(args.trials)]
            rng.shuffle(trials)
            if not trials:
                continue
            for start in range(0, len(trials), args.batch):
                phases = plan_of(trials[start : start + args.batch], rng)
                folder = base / f"{'host' if net is None else 'network'}.{start}"
                with net or tempfile.TemporaryDirectory():
                    seconds = run_job(folder, phases, net)
                rows += judge(folder, phases, seconds)
                for row in rows[-(len(phases) // 3) :]:
                    print(
                        f"{row['cause']} on rank {row['rank']}, {row['real']:.1f} ms a step: {row['sentence'] or 'nothing found'}",
                        flush=True,
                    )
        if args.keep:
            (base / "rows.json").write_text(json.dumps(rows, indent=1))
    return 0 if show(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
