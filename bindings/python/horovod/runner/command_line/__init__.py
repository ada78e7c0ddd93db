# SPDX-License-Identifier: Apache-2.0
"""The command line of horovodrun: flags, config file, and what this version does not have."""
