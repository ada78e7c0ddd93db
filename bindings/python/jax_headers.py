# SPDX-License-Identifier: Apache-2.0
"""Prints the folder of the headers in the jaxlib that is installed for this Python, and the name of the library that is made from
them and the files in the arguments, as two lines; nothing if there is no jaxlib. Run by meson at configure time.

Looks into folders and imports nothing: pip builds with a path that leaves the environment's own packages out, but with its Python.
"""

import runpy
import site
import sys
import sysconfig
from pathlib import Path

FIT = Path(__file__).resolve().with_name("horovod") / "jax" / "_fit.py"


def package_folders():
    """Where packages of this Python lie, most important first."""
    folders = [sysconfig.get_path("platlib"), sysconfig.get_path("purelib")]
    # A virtual environment does not see the user's own packages.
    return folders if sys.prefix != sys.base_prefix else [site.getusersitepackages(), *folders]


def main():
    fit = runpy.run_path(str(FIT))
    for folder in package_folders():
        headers = Path(folder) / "jaxlib" / "include"
        if (headers / fit["ENTRY"]).is_file():
            print(headers, fit["library_name"](headers, sys.argv[1:]), sep="\n")
            return


if __name__ == "__main__":
    main()
