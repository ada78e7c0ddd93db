# SPDX-License-Identifier: Apache-2.0
"""The metrics of this rank under names by Prometheus' conventions, for the registry of prometheus_client."""

import os
import socket
import threading

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, InfoMetricFamily
from prometheus_client.utils import floatToGoString

from horovod._native import native

_PREFIX = "hvd_"
_LABELS = ("rank", "host")
# Per unit of the library: the ending of the name, by what a value is divided, and the powers of two that become bounds of
# buckets. Each bucket of each histogram is a series that Prometheus has to keep for each rank, so times and sizes go up by 4.
_UNITS = {
    "ns": ("_seconds", 1e9, range(10, 37, 2)),  # 1 us to 69 s
    "bytes": ("_bytes", 1, range(6, 37, 2)),  # 64 B to 64 GB
    "1": ("", 1, range(0, 13)),  # 1 to 4096
}
_BY = "bytes_by_"  # these counters become one with a label


class Collector:
    """What prometheus_client asks when somebody reads the metrics. Tells nothing between two jobs."""

    def __init__(self, session):
        self._lock = threading.Lock()
        self._session = session
        self._host = os.environ.get("HOROVOD_HOSTNAME") or socket.gethostname()

    def forget(self):
        """The job has ended. Waits for a reader that is just taking a snapshot."""
        with self._lock:
            self._session = None

    def forget_in_child(self):
        """The same in a process made by fork, in which nobody would release the lock."""
        self._lock = threading.Lock()
        self._session = None

    def collect(self):
        """All families of metrics."""
        with self._lock:
            session = self._session
            if session is None:
                return
            counters = {name: (unit, value) for name, unit, value in session.context.metrics()}
            histograms = session.context.histograms()
            threshold = float(session.context.option_get("fusion_threshold"))
        labels = [str(session.rank), self._host]
        yield self._job(session, labels)
        yield _gauge("size", "ranks of the job", labels, session.size)
        ended = counters["operations_completed"][1] + counters["operations_failed"][1]
        in_flight = max(0.0, counters["operations_submitted"][1] - ended)
        yield _gauge("operations_in_flight", "operations that this rank has submitted and that have not ended", labels, in_flight)
        yield _gauge("fusion_threshold_bytes", "most data reduced as one operation", labels, threshold)
        yield _transports(counters, labels)
        for name, (unit, value) in counters.items():
            if not name.startswith(_BY):
                yield _counter(name, unit, value, labels)
        for row in histograms:
            yield _histogram(*row, labels)

    @staticmethod
    def _job(session, labels):
        facts = {"version": native().version_string(), "local_rank": str(session.local_rank), "epoch": str(session.epoch)}
        family = InfoMetricFamily(f"{_PREFIX}job", "the place of this rank", labels=_LABELS)
        family.add_metric(labels, facts)
        return family


def _gauge(name, text, labels, value):
    family = GaugeMetricFamily(_PREFIX + name, text, labels=_LABELS)
    family.add_metric(labels, value)
    return family


def name_of(name, unit):
    """The name in Prometheus, without the endings of counters: "bytes_reduced" is "hvd_reduced_bytes"."""
    ending = _UNITS[unit][0]
    if unit == "bytes":
        name = name.removeprefix("bytes_")
    if unit == "ns":
        name = name.removesuffix("_time")
    return _PREFIX + name + ending


def _counter(name, unit, value, labels):
    family = CounterMetricFamily(name_of(name, unit), native().metric_help(name), labels=_LABELS)
    family.add_metric(labels, value / _UNITS[unit][1])
    return family


def _transports(counters, labels):
    text = "data this rank has moved, by what carried it"
    family = CounterMetricFamily(f"{_PREFIX}transport_bytes", text, labels=(*_LABELS, "transport"))
    for name, (_unit, value) in counters.items():
        if name.startswith(_BY):
            family.add_metric([*labels, name[len(_BY):]], value)
    return family


def _histogram(name, unit, count, total, buckets, labels):
    _ending, scale, powers = _UNITS[unit]
    bounds, below, at = [], 0, 0
    for power in powers:
        below += sum(buckets[at : power + 1])
        at = power + 1
        bounds.append((floatToGoString((1 << power) / scale), below))
    bounds.append(("+Inf", count))
    family = HistogramMetricFamily(name_of(name, unit), native().metric_help(name), labels=_LABELS)
    family.add_metric(labels, bounds, total / scale)
    return family
