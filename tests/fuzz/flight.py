# SPDX-License-Identifier: Apache-2.0
"""Any bytes as the flight memory of a rank are read without an error, and what was read can be written as JSON. libFuzzer looks for
inputs (atheris): `python tests/fuzz/flight.py -max_total_time=20 FOLDER`; new ones go into FOLDER.

An input is a list of changes to a memory that is sound: a place (three bytes), and the byte that is written there.
"""

import json
import os
import sys
import time
from pathlib import Path

import atheris

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bindings/python/tests/runner"))
with atheris.instrument_imports():
    import flight_writer
    from flight_writer import flight

MEMORY = flight.new(0)
WRITER = flight_writer.Writer(MEMORY, rank=1, size=3, slots=dict.fromkeys(flight.RINGS, 8))  # few, for many inputs in a second
NOW = time.monotonic_ns()
WRITER.operation("a", NOW, NOW + 5)
WRITER.operation("b", NOW, NOW + 9, status=-60)
WRITER.wait("c", NOW, NOW + 9)
WRITER.stall("d", NOW, NOW, [1])
# Most of a memory is empty slots: places are those of the header and of the slots that are in use.
PLACES = [*range(flight.HEADER_BYTES)] + [WRITER.offsets[name] + slot * WRITER.slot_bytes(name) + byte for name in flight.RINGS
                                          for slot in (1, 2) for byte in range(WRITER.slot_bytes(name))]
SOUND = {place: os.pread(MEMORY, 1, place) for place in PLACES}


def one_input(data):
    changed = []
    for start in range(0, len(data) - 3, 4):
        place = PLACES[int.from_bytes(data[start : start + 3], "little") % len(PLACES)]
        os.pwrite(MEMORY, data[start + 3 : start + 4], place)
        changed.append(place)
    reader = flight.Flight(MEMORY)
    json.dumps([reader.facts(), reader.stalls()])
    reader.records()
    for place in changed:
        os.pwrite(MEMORY, SOUND[place], place)


if __name__ == "__main__":
    atheris.Setup(sys.argv, one_input)
    atheris.Fuzz()
