# SPDX-License-Identifier: Apache-2.0
"""Metrics of OpenTelemetry beside those of hvd, at one address: both stand in the registry of prometheus_client.

pip install prometheus_client opentelemetry-exporter-prometheus
horovodrun -np 2 --metrics-port 9400 python with_opentelemetry.py
"""

import os
import urllib.request

import numpy as np
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import MeterProvider

import horovod as hvd

hvd.init()
meter = MeterProvider(metric_readers=[PrometheusMetricReader()]).get_meter("training")
steps = meter.create_counter("steps", description="steps of this rank")
for _ in range(10):
    hvd.allreduce(np.ones(1000, np.float32), name="gradient")
    steps.add(1)

# What Prometheus reads of this rank.
port = int(os.environ["HOROVOD_METRICS_PORT"]) + hvd.local_rank()
with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
    for line in answer.read().decode().splitlines():
        if line.startswith(("steps_total", "hvd_operations_completed_total")):
            print(line, flush=True)
hvd.barrier()
