# SPDX-License-Identifier: Apache-2.0
"""What all flavours of the package share, under the import paths that Horovod's users know."""
