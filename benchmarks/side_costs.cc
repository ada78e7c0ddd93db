// SPDX-License-Identifier: Apache-2.0
#include "side_costs.h"

#include <signal.h>
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <vector>

#include "hvd_port.h"
#include "measure.h"

namespace bench {
namespace {

constexpr const char* kProgram = "hvd";

// The number after "key:" in a file of /proc, or 0.
uint64_t number_after(const std::filesystem::path& file, const std::string& key) {
  std::ifstream in(file);
  for (std::string word; in >> word;) {
    uint64_t value = 0;
    if (word == key + ":" && in >> value) return value;
  }
  return 0;
}

uint64_t voluntary_switches() {
  uint64_t sum = 0;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task"))
    sum += number_after(thread.path() / "status", "voluntary_ctxt_switches");
  return sum;
}

void sleep_ns(int64_t ns) {
  const timespec duration{ns / 1'000'000'000, ns % 1'000'000'000};
  nanosleep(&duration, nullptr);
}

// The largest of the ranks' values, on every rank.
uint64_t largest(bench_board* board, uint64_t value) {
  bench_board_barrier(board);
  bench_board_record(board, 0, 0, value);
  bench_board_barrier(board);
  const uint64_t result = bench_board_span(board, 0);
  bench_board_barrier(board);
  return result;
}

void print(int rank, const char* name, const char* unit, double value, double lowest,
           unsigned samples) {
  if (rank == 0) bench_print(kProgram, name, unit, value, lowest, samples);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// About 20 ms in registers: nothing but the loss of its core can slow it.
double compute_us() {
  const uint64_t start = bench_now_ns();
  uint64_t state = 88172645463325252u;
  for (int i = 0; i < 8'000'000; i++) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
  }
  asm volatile("" : : "r"(state));  // the result counts as used
  return static_cast<double>(bench_now_ns() - start) / 1e3;
}

}  // namespace

void measure_idle_switches(bench_board* board, int rank, int seconds) {
  bench_board_barrier(board);
  sleep_ns(200'000'000);  // the engine may spin for a moment after its last operation
  const uint64_t before = voluntary_switches();
  sleep_ns(seconds * 1'000'000'000LL);
  const uint64_t own_sleep = 1;
  const uint64_t switches = largest(board, voluntary_switches() - before - own_sleep);
  print(rank, "idle/voluntary_switches", "1/s", static_cast<double>(switches) / seconds, 0, 1);
}

void measure_memory(bench_board* board, int rank,
                    const std::function<std::function<void()>()>& use) {
  const std::filesystem::path usage = "/proc/self/smaps_rollup";
  bench_board_barrier(board);
  const uint64_t rss_before = number_after(usage, "Rss");
  const uint64_t pss_before = number_after(usage, "Pss");
  bench_board_barrier(board);
  const std::function<void()> release = use();
  bench_board_barrier(board);
  const uint64_t rss_after = number_after(usage, "Rss");
  const uint64_t pss_after = number_after(usage, "Pss");
  const uint64_t rss = largest(board, rss_after > rss_before ? rss_after - rss_before : 0);
  const uint64_t pss = largest(board, pss_after > pss_before ? pss_after - pss_before : 0);
  release();
  print(rank, "memory/rss", "MB", static_cast<double>(rss) / 1024, 0, 1);
  print(rank, "memory/pss", "MB", static_cast<double>(pss) / 1024, 0, 1);
}

void measure_init(bench_board* board, int rank, int size, const std::string& directory) {
  constexpr int kTurns = 11;
  std::vector<double> start_us;
  std::vector<double> stop_us;
  for (int turn = 0; turn < kTurns; turn++) {
    const std::string meeting = directory + "/init-" + std::to_string(turn);
    std::error_code ignored;
    std::filesystem::create_directory(meeting, ignored);
    bench_board_barrier(board);
    uint64_t entered = bench_now_ns();
    auto port = std::make_unique<HvdPort>(kProgram, rank, size, "file://" + meeting);
    bench_board_record(board, 0, entered, bench_now_ns());
    bench_board_barrier(board);
    entered = bench_now_ns();
    port.reset();
    bench_board_record(board, 1, entered, bench_now_ns());
    bench_board_barrier(board);
    start_us.push_back(static_cast<double>(bench_board_span(board, 0)) / 1e3);
    stop_us.push_back(static_cast<double>(bench_board_span(board, 1)) / 1e3);
  }
  bench_board_barrier(board);
  print(rank, "init", "us", median(start_us), *std::min_element(start_us.begin(), start_us.end()),
        kTurns);
  print(rank, "shutdown", "us", median(stop_us), *std::min_element(stop_us.begin(), stop_us.end()),
        kTurns);
}

void measure_idle_slowdown(const Ranks& ranks) {
  constexpr int kPairs = 60;
  bench_pin_thread(0);
  std::vector<double> beside;
  std::vector<double> alone;
  for (int i = 0; i < 2 * kPairs; i++) {
    // A B B A: a drift of the machine weighs on both alike
    const bool running = (i / 2 + i) % 2 == 0;
    ranks.signal_all(running ? SIGCONT : SIGSTOP);
    sleep_ns(3'000'000);  // what the signal itself sets off is not what is asked for
    (running ? beside : alone).push_back(compute_us());
  }
  ranks.signal_all(SIGCONT);
  const double lowest_beside = *std::min_element(beside.begin(), beside.end());
  const double lowest_alone = *std::min_element(alone.begin(), alone.end());
  bench_print(kProgram, "idle/slowdown", "%", (median(beside) / median(alone) - 1) * 100,
              (lowest_beside / lowest_alone - 1) * 100, kPairs);
}

}  // namespace bench
