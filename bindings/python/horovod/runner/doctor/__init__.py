# SPDX-License-Identifier: Apache-2.0
"""horovodrun doctor: will a job run on these hosts?"""
