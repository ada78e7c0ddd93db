# SPDX-License-Identifier: Apache-2.0
"""The metrics of a rank for Prometheus. Imported only where HOROVOD_METRICS_PORT is set."""
