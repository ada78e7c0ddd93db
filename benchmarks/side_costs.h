// SPDX-License-Identifier: Apache-2.0
// side_costs.h: what an engine costs beside the operations: while idle, in memory, at the start.
#ifndef HVD_BENCHMARKS_SIDE_COSTS_H
#define HVD_BENCHMARKS_SIDE_COSTS_H

#include <functional>
#include <string>

#include "cases.h"
#include "ranks.h"

namespace bench {

// Run in every rank. All print from rank 0, the worst rank's number.

// Voluntary context switches per second of all threads of the process while its context has nothing
// to do.
void measure_idle_switches(bench_board* board, int rank, int seconds);

// Resident memory that is there after `use` and was not before it, with shared pages counted fully
// (Rss) and divided among those that share them (Pss). `use` must give back its own buffers, and
// returns what keeps the engine alive.
void measure_memory(bench_board* board, int rank,
                    const std::function<std::function<void()>()>& use);

// Microseconds that hvd_init and hvd_shutdown take in processes that run already.
void measure_init(bench_board* board, int rank, int size, const std::string& directory);

// Run in the parent: per cent by which a loop that only computes is slower while the ranks idle
// than while they are stopped by SIGSTOP, alternating.
void measure_idle_slowdown(const Ranks& ranks);

}  // namespace bench

#endif
