// SPDX-License-Identifier: Apache-2.0
// bench_hvd: the C ABI across processes.
//
//   bench_hvd --np N [--mode cases|idle|memory|init] [--seconds S] [arguments of cases.h]
//
// All arguments of cases.h but --board.
//
// Starts N ranks of itself, which meet in a fresh directory.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cases.h"
#include "hvd_port.h"
#include "ranks.h"
#include "side_costs.h"

namespace bench {
namespace {

struct Arguments {
  int argc;
  char** argv;
  std::string text(const char* name, const char* fallback) const {
    return bench_argument(argc, argv, name, fallback);
  }
  int number(const char* name, const char* fallback) const {
    return std::atoi(text(name, fallback).c_str());
  }
};

// A little of everything, so that the engine has started whatever it starts.
void warm_up(bench_board* board, bench_port operations) {
  bench_options options{};
  options.budget_ns = 1;
  options.max_bytes = 1 << 20;
  options.run_sync = 1;
  options.run_collectives = 1;
  operations.program = "warm_up";
  bench_run_cases(&operations, board, &options);
}

void run_idle(const Arguments& arguments, bench_board* board, int rank, int size,
              const std::string& rendezvous) {
  HvdPort port("hvd", rank, size, rendezvous);
  warm_up(board, port.port());
  measure_idle_switches(board, rank, arguments.number("--seconds", "10"));
  const char ready = 1;
  const int ready_fd = arguments.number("--ready-fd", "-1");
  if (write(ready_fd, &ready, 1) != 1)
    bench_fail("hvd", rank, "cannot tell the parent that this rank idles");
  char byte = 0;
  while (read(STDIN_FILENO, &byte, 1) > 0) continue;
}

void run_memory(bench_board* board, int rank, int size, const std::string& rendezvous,
                bench_options options) {
  options.budget_ns = 1;  // the smallest number of samples of every case
  options.run_sync = options.run_sets = options.run_collectives = 1;
  measure_memory(board, rank, [&] {
    auto port = std::make_shared<HvdPort>("memory_run", rank, size, rendezvous);
    const bench_port operations = port->port();
    bench_run_cases(&operations, board, &options);
    return std::function<void()>([port]() mutable { port.reset(); });
  });
}

int run_rank(const Arguments& arguments, int rank, int size) {
  const std::string directory = arguments.text("--directory", "");
  const std::string mode = arguments.text("--mode", "cases");
  const std::string rendezvous = "file://" + directory;
  const bench_options options = bench_options_parse(arguments.argc, arguments.argv);
  bench_board* board = bench_board_open((directory + "/board").c_str(), rank, size);
  if (board == nullptr) bench_fail("bench_hvd", rank, "cannot open the board");
  if (mode == "idle") {
    run_idle(arguments, board, rank, size, rendezvous);
  } else if (mode == "memory") {
    run_memory(board, rank, size, rendezvous, options);
  } else if (mode == "init") {
    measure_init(board, rank, size, directory);
  } else if (mode == "cases") {
    HvdPort port("hvd", rank, size, rendezvous);
    if (options.pin) bench_pin_thread(rank);
    const bench_port operations = port.port();
    bench_run_cases(&operations, board, &options);
  } else {
    bench_fail("bench_hvd", rank, "--mode is none of cases, idle, memory, init");
  }
  bench_board_close(board);
  return 0;
}

int run_parent(const Arguments& arguments, int size) {
  const ScratchDirectory directory;
  Ranks ranks(size, std::vector<std::string>(arguments.argv, arguments.argv + arguments.argc),
              directory.path());
  if (arguments.text("--mode", "cases") == "idle" && ranks.wait_until_ready())
    measure_idle_slowdown(ranks);
  return ranks.finish();
}

int run(int argc, char** argv) {
  const Arguments arguments{argc, argv};
  const int size = arguments.number("--np", "2");
  const int rank = arguments.number("--rank", "-1");
  if (size < 1 || size > BENCH_MAX_RANKS) {
    std::fprintf(stderr, "bench_hvd: --np is %d, allowed are 1 to %d\n", size,
                 int{BENCH_MAX_RANKS});
    return 2;
  }
  return rank >= 0 ? run_rank(arguments, rank, size) : run_parent(arguments, size);
}

}  // namespace
}  // namespace bench

int main(int argc, char** argv) { return bench::run(argc, argv); }
