# SPDX-License-Identifier: Apache-2.0
"""horovodrun report: where the time of a job went, and which rank to look at, from the records that the job left."""
