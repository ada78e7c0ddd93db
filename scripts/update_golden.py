#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Rewrites the golden copies of the public interface. The diff of what it writes is what a reviewer reads.

    update_golden.py                     capi/abi/hvd-1.api.json, from the header
    update_golden.py --library LIB       capi/abi/hvd-1.abi too, from a library built with -Dbuildtype=debug by g++
    update_golden.py --freeze            capi/abi/hvd-MAJOR.MINOR/: the headers as an old client sees them; once per release.
                                         --force replaces a copy that was not released yet
"""
import argparse
import shutil
import sys
from pathlib import Path

import api_model
import check_abi
import check_abidiff


def freeze(force: bool) -> None:
    """Copies the public headers to the folder of their version."""
    version = api_model.read_model()["version"]
    folder = check_abi.GOLDEN.parent / f"hvd-{version['HVD_VERSION_MAJOR']}.{version['HVD_VERSION_MINOR']}"
    if folder.exists() and not force:
        raise SystemExit(f"{folder.name} exists; a released header never changes (--force if it was not released)")
    folder.mkdir(exist_ok=True)
    for name in ("hvd.h", "version.h"):
        shutil.copy(api_model.HEADER.parent / name, folder / name)
    print(f"wrote {folder.name}/")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", type=Path)
    parser.add_argument("--freeze", action="store_true")
    parser.add_argument("--force", action="store_true")
    arguments = parser.parse_args()
    check_abi.GOLDEN.write_text(api_model.to_json(api_model.read_model()))
    print(f"wrote {check_abi.GOLDEN.name}")
    if arguments.library:
        check_abidiff.generate(arguments.library, check_abidiff.GOLDEN, check_abidiff.HEADERS)
    if arguments.freeze:
        freeze(arguments.force)
    return 0


if __name__ == "__main__":
    sys.exit(main())
