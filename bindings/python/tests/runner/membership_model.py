# SPDX-License-Identifier: Apache-2.0
"""A job of workers around the membership machine, in made-up time: messages take their time, and workers die at any moment.

    python membership_model.py --runs 20000 [--seed 1]

Prints the seed of every run that breaks a rule. ``Model`` says which rules there are.
"""

import argparse
import heapq
import itertools
import random
import sys

from horovod.runner.membership.machine import Membership
from horovod.runner.membership.orders import Begin, Bounds, Changed, End, Refuse, Start

_KEPT = "times that a process set went on"
GOAL = 30  # commits of a whole job


class Broken(AssertionError):
    """A rule is broken."""


class Worker:
    def __init__(self, number, host, slot):
        self.number, self.host, self.slot = number, host, slot
        self.alive, self.epoch, self.position, self.asking = True, 0, -1, False
        self.members, self.told, self.wants_to_leave = (), 0, False
        self.expelled = self.is_there = False  # whether its process has not ended
        self.sets = {}  # that it knows to be made: workers by number


class Model:
    """Rules: a member of an epoch has asked for it, and none of the epoch before goes on; every epoch has at least the smallest number
    of members and, survivors apart, at most the largest; rank 0's state is the furthest, and where states are not synchronized
    they are equal; a process set goes on if all survivors know it and its members are members; once the faults end the job comes to its goal, or ends for a reason that holds."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        chance = self.random
        self.hosts = {f"h{number}": chance.randint(1, 3) for number in range(chance.randint(1, 3))}
        slots = sum(self.hosts.values())
        least = chance.randint(1, slots)
        first = chance.randint(least, slots)
        most = chance.choice([slots, chance.randint(first, slots), slots + 3])
        cooldown = chance.choice([None, None, (0.5, 3.0)])
        self.bounds = Bounds(first, least, most, patience=60.0, fixed=False, cooldown=cooldown)
        self.machine = Membership(self.bounds, chance.random)
        self.workers, self.events, self.order, self.now = {}, [], itertools.count(), 0.0
        self.fragile_until = chance.uniform(1.0, 40.0)  # faults come until then
        self.death_rate = chance.choice([0.0, 0.02, 0.1])
        self.ending, self.epochs, self.to_start_badly = None, 0, chance.choice([0.0, 0.0, 0.2])
        self.finished, self.begun = set(), False
        self.last_set, self.kept = 0, 0

    # Time.

    def after(self, delay, function, *args):
        heapq.heappush(self.events, (self.now + delay, next(self.order), function, args))

    def run(self):
        self.obey(self.machine.found(self.now, self.hosts))
        self.after(self.random.uniform(0, 5), self.change_hosts)
        for _ in range(100000):
            deadline = self.machine.deadline
            if self.machine.over and not any(worker.alive for worker in self.workers.values()):
                return
            if deadline is not None and (not self.events or deadline < self.events[0][0]):
                self.now = max(self.now, deadline)
                self.obey(self.machine.tick(self.now))
            elif self.events:
                self.now, _, function, args = heapq.heappop(self.events)
                function(*args)
            else:
                break
            if self.ending is not None:
                return
        self.check(self.machine.over, f"stands still at {self.now:.1f}")

    def check(self, holds, what):
        if not holds:
            raise Broken(what)

    def delay(self):
        return self.random.choice([0.001, 0.001, 0.01, self.random.uniform(0, 0.5)])

    # What the machine orders.

    def obey(self, orders):
        for order in orders:
            if isinstance(order, Start):
                self.start(order)
            elif isinstance(order, Begin):
                self.begin(order)
            elif isinstance(order, Changed):
                for number in order.workers:
                    self.after(self.delay(), self.hear_of_change, self.workers[number], self.epochs, order.flags)
            elif isinstance(order, Refuse):
                self.after(self.delay(), self.die, self.workers[order.worker], False)
            elif isinstance(order, End):
                self.end(order)

    def start(self, order):
        self.check(order.slot < self.hosts.get(order.host, 0), f"started on {order.host}:{order.slot}, which there is not")
        for other in self.workers.values():
            self.check(not other.is_there or (other.host, other.slot) != (order.host, order.slot), "two workers on one slot")
        worker = self.workers[order.worker] = Worker(order.worker, order.host, order.slot)
        worker.is_there = True
        if self.now < self.fragile_until and self.random.random() < self.to_start_badly:
            self.after(self.random.uniform(0, 2), self.die, worker, True)
        else:
            self.after(self.random.uniform(0.1, 2), self.ask, worker)

    def begin(self, order):
        self.epochs += 1
        self.check(order.epoch == self.epochs, "epochs are not counted")
        members = [self.workers[number] for number in order.members]
        for worker in self.workers.values():
            if worker.number not in order.members and worker.alive and not worker.wants_to_leave and self.offered(worker):
                self.check(not worker.epoch or worker.asking, f"worker {worker.number} goes on in epoch {worker.epoch}")
        for worker in members:
            self.check(worker.asking, f"worker {worker.number} has not asked")
        survivors = [worker for worker in members if worker.epoch == self.epochs - 1 > 0]
        wanted = self.bounds.first if self.epochs == 1 else 1 if self.finished else self.bounds.least
        self.check(len(members) >= wanted, f"{len(members)} members, {wanted} are needed")
        going = sum(worker.wants_to_leave or not self.offered(worker) for worker in survivors)
        self.check(len(members) <= max(self.bounds.most + going, len(survivors)), f"{len(members)} members")
        positions = [worker.position for worker in members]
        self.check(positions[0] == max(positions), f"rank 0 has position {positions[0]}, others {positions}")
        self.check(order.synchronize or len(set(positions)) == 1, f"positions {positions} are not synchronized")
        self.check(self.epochs == 1 or survivors, "nobody has survived")
        self.check(positions[0] >= 0 or not self.begun, "nobody has the state")
        self.check(not any(worker.expelled for worker in members), f"an expelled worker is a member: {order.members}")
        self.check_sets(order, survivors)
        for worker in members:
            worker.sets = self.sets_of(order)
            self.after(self.delay(), self.join, worker, order)

    def sets_of(self, order):
        return {number: tuple(order.members[rank] for rank in ranks) for number, ranks in order.sets}

    def check_sets(self, order, survivors):
        known = [worker.sets for worker in survivors]
        mine = known[0] if known else {}
        kept = {number for number, workers in mine.items() if all(sets.get(number) == workers for sets in known)}
        kept = {number: set(mine[number]) for number in kept if set(mine[number]) <= set(order.members)}
        self.check({number: set(workers) for number, workers in self.sets_of(order).items()} == kept, f"sets {order.sets}, not {kept}")
        self.check(order.next_set_id > self.last_set, f"the id {order.next_set_id} was used before")
        self.kept += len(kept)

    def end(self, order):
        living = [worker for worker in self.workers.values() if worker.alive]
        if "state" in order.why:
            holders = [worker for worker in living if worker.position >= 0]
            self.check(all(worker.epoch < self.epochs or not worker.members for worker in holders), order.why)
        elif "needed" in order.why:
            self.check(self.now >= self.bounds.patience, order.why)
        self.ending = order.why

    def offered(self, worker):
        return worker.slot < self.hosts.get(worker.host, 0)

    # What workers do.

    def ask(self, worker):
        if worker.alive:
            worker.asking = True
            self.after(self.delay(), self.hear_asked, worker, worker.position)

    def hear_asked(self, worker, position):
        if worker.alive:
            self.obey(self.machine.asked(self.now, worker.number, position))

    def join(self, worker, order):
        if not worker.alive:
            return
        worker.epoch, worker.members, worker.told, worker.asking = order.epoch, order.members, 0, False
        mates = [self.workers[number] for number in order.members]
        if any(not mate.alive for mate in mates):
            self.fail(worker, order.epoch)
        elif all(mate.epoch == order.epoch for mate in mates):
            if order.synchronize:
                for mate in mates:
                    mate.position = max(0, mates[0].position)
            self.begun = True
            self.after(self.random.uniform(0.05, 0.5), self.step, order.epoch, mates)

    def step(self, epoch, mates):
        """All members finish a step and commit, one after the other, unless one has died."""
        if any(not mate.alive or mate.epoch != epoch for mate in mates):
            return
        if mates[0].position >= GOAL:
            for mate in mates:
                self.after(self.delay(), self.finish, mate, epoch)
            return
        if not self.change_sets(mates):
            return
        told = max(mate.told for mate in mates)
        for mate in mates:
            if self.now < self.fragile_until and self.random.random() < self.death_rate / len(mates):
                self.die(mate, True)
                return  # those before it have committed
            mate.position += 1
        if told:
            for mate in mates:
                self.ask(mate)
            return
        self.after(self.random.uniform(0.05, 0.5), self.step, epoch, mates)

    def change_sets(self, mates):
        """Now and then all make a set or end one. False if some of them fail before they know of it, and so do all."""
        chance = self.random.random()
        if chance > 0.2:
            return True
        number, ranks = self.last_set + 1, sorted(self.random.sample(range(len(mates)), self.random.randint(1, len(mates))))
        if chance < 0.05 and mates[0].sets:
            number, ranks = self.random.choice(sorted(mates[0].sets)), []
        quiet = self.now >= self.fragile_until or self.random.random() < 0.95
        knowing = len(mates) if quiet else self.random.randint(0, len(mates) - 1)
        self.last_set = max(self.last_set, number if knowing else 0)
        for mate in mates[:knowing]:
            self.machine.set_changed(mate.number, number, ranks)
            mate.sets[number] = tuple(mates[rank].number for rank in ranks)
            if not ranks:
                del mate.sets[number]
        if not quiet:
            self.die(mates[-1], True)
        return quiet

    def fail(self, worker, epoch):
        """An operation of the epoch has failed on this worker."""
        if worker.alive and worker.epoch == epoch and not worker.asking:
            self.ask(worker)

    def finish(self, worker, epoch):
        if worker.alive and worker.epoch == epoch and not worker.asking:
            self.finished.add(worker.number)
            self.die(worker, False)

    def freeze(self, worker, failed):
        """A signal stops the process: for the others it is as good as dead."""
        self.die(worker, failed, expelled=True)

    def hear_of_stillness(self, worker, failed):
        worker.expelled = True
        self.obey(self.machine.expelled(self.now, worker.number))
        self.after(self.random.uniform(0, 20), self.wake, worker, failed)

    def wake(self, worker, failed):
        """It goes on, learns of it, and ends; or it does not and is killed."""
        if self.random.random() < 0.7:
            orders = self.machine.asked(self.now, worker.number, worker.position)
            self.check([type(order) for order in orders] == [Refuse] and orders[0].expelled, f"an expelled worker gets {orders}")
        self.hear_end(worker, failed)

    def die(self, worker, failed, expelled=False):
        if not worker.alive:
            return
        worker.alive = False
        self.after(self.delay(), self.hear_of_stillness if expelled else self.hear_end, worker, failed)
        mates = [mate for mate in self.workers.values() if worker.number in mate.members and mate.epoch == self.epochs]
        if worker.number in self.finished:
            return
        for mate in mates:
            if mate is not worker and not mate.asking and mate.number not in self.finished:
                self.after(self.delay(), self.fail, mate, mate.epoch)

    def hear_end(self, worker, failed):
        worker.is_there = False
        self.obey(self.machine.ended(self.now, worker.number, failed))
        if self.machine.over:
            for other in self.workers.values():
                self.after(0.01, self.die, other, False)

    def hear_of_change(self, worker, epoch, flags):
        if worker.alive and worker.epoch == epoch:
            worker.told |= flags

    # What happens from outside.

    def change_hosts(self):
        if self.now > self.fragile_until:
            return
        chance = self.random
        kind = chance.choice(["take", "add", "leave", "kill", "freeze", "nothing"])
        if kind == "take" and len(self.hosts) > 1:
            self.hosts.pop(chance.choice(list(self.hosts)))
        elif kind == "add":
            self.hosts[f"n{len(self.hosts)}"] = chance.randint(1, 2)
        elif kind == "leave":
            living = [worker for worker in self.workers.values() if worker.alive and worker.epoch == self.epochs]
            if len(living) > 1:
                leaver = chance.choice(living)
                leaver.wants_to_leave = True
                self.obey(self.machine.leaving(self.now, leaver.number))
        elif kind in ("kill", "freeze"):
            living = [worker for worker in self.workers.values() if worker.alive]
            if len(living) > 1:
                (self.die if kind == "kill" else self.freeze)(chance.choice(living), True)
        if kind in ("take", "add"):
            self.obey(self.machine.found(self.now, self.hosts))
        self.after(chance.uniform(0, 5), self.change_hosts)


def failures(runs, seed):
    """The seeds of runs that broke a rule, with the rule; and how the jobs ended: a dict with counts, of sets that went on too."""
    broken, ends = [], {_KEPT: 0}
    for number in range(seed, seed + runs):
        model = Model(number)
        try:
            model.run()
        except Broken as error:
            broken.append((number, str(error)))
        ends[_KEPT] += model.kept
        ends[model.ending or "goal"] = ends.get(model.ending or "goal", 0) + 1
    return broken, ends


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=20000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    broken, ends = failures(options.runs, options.seed)
    for seed, why in broken:
        print(f"seed {seed}: {why}")
    for how, count in sorted(ends.items(), key=lambda item: -item[1])[:12]:
        print(f"{count:7}  {how}")
    print(f"{options.runs} runs, {len(broken)} broken")
    return bool(broken)


if __name__ == "__main__":
    sys.exit(main())
