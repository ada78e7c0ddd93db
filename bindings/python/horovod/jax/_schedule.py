# SPDX-License-Identifier: Apache-2.0
"""Puts the starts of operations before the waits for them, in the programs that XLA gets.

Left to itself XLA schedules for little memory: start, wait, start, wait. Two ranks whose programs order operations
differently would wait for each other, and there would never be two in flight. So each wait gets a token that depends on every
start that can do without its result. Programs are built from front to back, which is why an operation that comes later is
moved before the gate: the point that the waits depend on.
"""

import threading

from jax._src.lib.mlir.dialects import hlo

_thread = threading.local()


class _Gate:
    """The last point that starts come before; ``late`` are the operations known to depend on what comes after it."""

    def __init__(self, module, block, token):
        self.module, self.block = module, block
        self.operation = hlo.AfterAllOp([token]).operation
        self.late, self.early = set(), set()

    def pass_by(self, start, token):
        """Moves a start before the gate, with all it needs; False, and nothing is moved, if it needs what comes after."""
        needed = self._needed(start)
        if needed is None:
            return False
        for operation in needed:
            if not operation.is_before_in_block(self.operation):
                operation.move_before(self.operation)
        self.early.update(needed)
        self.operation.operands[0] = token
        return True

    def waited(self, results):
        """Notes that these results come after the gate, and returns them."""
        for result in results:
            self.late.add(result.owner.operation)
        return results

    def _needed(self, start):
        """The operations that ``start`` depends on, and itself, in an order in which they can stand; None if one is late."""
        order, done, stack = [], set(), [(start, False)]
        while stack:
            operation, visited = stack.pop()
            if visited:
                order.append(operation)
                continue
            if operation in done or operation in self.early:
                continue
            done.add(operation)
            if operation in self.late:
                self.late.add(start)
                return None
            stack.append((operation, True))
            stack.extend((one, False) for one in _sources(operation, self.block))
        return order


def _sources(operation, block):
    """Operations of this block whose results the operation uses, also inside of its own blocks."""
    found = []
    for value in operation.operands:
        # An argument of a block is owned by the block; what an outer block has made stands before this one anyway.
        owner = getattr(value.owner, "operation", None)
        if owner is not None and owner.block == block:
            found.append(owner)
    for region in operation.regions:
        for inner in region:
            for one in inner:
                found.extend(_sources(one.operation, block))
    return found


def gate_of(module, token):
    """The gate for the wait that belongs to the start at the end of its block that has made ``token``."""
    start = token.owner.operation
    gates = [gate for gate in getattr(_thread, "gates", ()) if gate.module is module]
    block = start.block
    gate = next((one for one in gates if one.block == block), None)
    if gate is None or not gate.pass_by(start, token):
        gates = [one for one in gates if one is not gate]
        gate = _Gate(module, block, token)
        gates.append(gate)
    _thread.gates = gates
    return gate
