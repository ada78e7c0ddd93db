# SPDX-License-Identifier: Apache-2.0
"""The name of the compiled handlers: a digest of what they are made from, so that a library that does not fit is not found.

The build of the package runs this file too (bindings/python/jax_headers.py), and there is no JAX then: standard library only.
"""

import hashlib
from pathlib import Path

# In the folder where jaxlib keeps headers; without it there is nothing to compile against.
ENTRY = Path("xla", "ffi", "api", "ffi.h")


def library_name(jaxlib_headers, sources):
    """``jax-ffi-<digest>``: of all headers in that folder and of these files of ours, wherever they lie."""
    digest = hashlib.sha256()
    headers = [(path.relative_to(jaxlib_headers).as_posix(), path) for path in Path(jaxlib_headers, "xla").rglob("*.h")]
    for name, path in sorted(headers) + sorted((path.name, path) for path in map(Path, sources)):
        content = path.read_bytes()
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
    return f"jax-ffi-{digest.hexdigest()[:32]}"
