// SPDX-License-Identifier: Apache-2.0
// A stream of collectives until a rank is gone; then the survivors make a new job among themselves.
#include <dirent.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <thread>

#include "process/victim.h"

namespace hvd::testing {

namespace {

constexpr int kInFlight = 3;

// Buffers of one operation in flight.
struct Slot {
  std::string name;
  std::vector<float> in, out;
  hvd_handle* handle = nullptr;
};

size_t length_of(const std::string& kind) {
  return kind == "allreduce_large" ? 1 << 20 : kind == "allreduce" ? 64 : 4096;
}

hvd_status submit(const Job& job, const std::string& kind, Slot& slot, hvd_error* error) {
  const auto count = static_cast<int64_t>(slot.in.size());
  const int64_t rows[] = {job.size(), count / job.size()};
  const hvd_tensor in = tensor_of(slot.in.data(), &count, 1, HVD_FLOAT32);
  const hvd_tensor out = tensor_of(slot.out.data(), &count, 1, HVD_FLOAT32);
  const hvd_tensor table = tensor_of(slot.in.data(), rows, 2, HVD_FLOAT32);
  hvd_op_options options = named(slot.name.c_str());
  hvd_context* const context = job.get();
  if (kind == "grouped") {
    const hvd_tensor ins[] = {in, in, in};
    return hvd_grouped_allreduce_async(context, ins, nullptr, 3, &options, &slot.handle, error);
  }
  if (kind == "allgather")
    return hvd_allgatherv_async(context, &in, nullptr, &options, &slot.handle, error);
  if (kind == "broadcast")
    return hvd_broadcast_async(context, &in, &out, &options, &slot.handle, error);
  if (kind == "alltoall")
    return hvd_alltoallv_async(context, &table, nullptr, nullptr, &options, &slot.handle, error);
  if (kind == "reducescatter")
    return hvd_reducescatter_async(context, &in, nullptr, &options, &slot.handle, error);
  if (kind == "barrier") return hvd_barrier_async(context, &options, &slot.handle, error);
  if (kind == "join") return hvd_join_async(context, &options, &slot.handle, error);
  return hvd_allreduce_async(context, &in, &out, &options, &slot.handle, error);
}

void close_everything() {
  for (int fd = 3; fd < 4096; ++fd) ::close(fd);
}

// What the doomed rank does by itself, from another thread, in the middle of its stream.
void meet_end(const std::string& end) {
  if (end == "exit3") std::exit(3);
  if (end == "exit0") std::exit(0);
  if (end == "abort") std::abort();
  if (end == "segv") ::kill(::getpid(), SIGSEGV);
  if (end == "close") close_everything();
}

// With "fork", a child that lives on holds copies of every descriptor.
void fork_child() {
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(STDIN_FILENO);
    ::close(STDOUT_FILENO);
    for (;;) ::pause();
  }
  say("child %d", static_cast<int>(child));
}

// Runs until something fails; tells the driver about every operation that ended badly, and when.
Failure stream(const Job& job, const std::string& kind, bool quiet) {
  std::vector<Slot> slots(kind == "join" ? 1 : kInFlight);
  for (size_t i = 0; i < slots.size(); ++i) {
    slots[i].name = "s" + std::to_string(i);
    slots[i].in.assign(length_of(kind), 1.0f);
    slots[i].out.assign(length_of(kind), 0.0f);
  }
  Failure first;
  for (uint64_t round = 0; first.status == HVD_OK; ++round) {
    for (Slot& slot : slots) {
      slot.handle = nullptr;
      hvd_error error = HVD_ERROR_INIT;
      const hvd_status status = submit(job, kind, slot, &error);
      if (status == HVD_OK) continue;
      if (first.status == HVD_OK) first = failure_of(status, error);
      if (!quiet)
        say("failed %lld submit %d %d %s", static_cast<long long>(now_ns()), status, error.rank,
            error.message);
    }
    for (Slot& slot : slots) {
      if (slot.handle == nullptr) continue;
      const Failure failure = Job::wait(slot.handle, 20 * kSecond);
      if (failure.status == HVD_OK) continue;
      if (first.status == HVD_OK) first = failure;
      if (!quiet) {
        say("failed %lld wait %d %d %s", static_cast<long long>(now_ns()), failure.status,
            failure.rank, failure.message.c_str());
      }
    }
    if (round == 2) say("streaming");
  }
  return first;
}

}  // namespace

int play_stream(const Setting& setting) {
  const std::string end = setting.text("end", "");
  Job job;
  open_job(job, setting);
  if (end == "fork") fork_child();
  std::thread doom;
  if (!end.empty() && end != "fork") {
    doom = std::thread([&] {
      sleep_ms(setting.number("after_ms", 20));
      say("ending %lld", static_cast<long long>(now_ns()));
      meet_end(end);
    });
  }
  stream(job, setting.text("kind", "allreduce"), end == "close");
  if (doom.joinable()) doom.join();
  const Failure status = job.status();
  say("status %lld %d %d %s", static_cast<long long>(now_ns()), status.status, status.rank,
      status.message.c_str());
  if (end == "close") return 0;
  VICTIM_OK(job.close());

  // "again <rank> <size> <folder>": the survivors go on without the dead.
  std::istringstream order(hear());
  std::string word;
  Setting next = setting;
  order >> word >> next.rank >> next.size >> next.folder;
  VICTIM_CHECK(word == "again");
  Job second;
  open_job(second, next);
  expect_sum(second, 1000, "again");
  VICTIM_OK(second.barrier("end"));
  VICTIM_OK(second.close());
  say("good");
  return 0;
}

int play_init(const Setting& setting) {
  Job job;
  if (const int most = setting.number("nofile", 0); most > 0) {
    const rlimit files{static_cast<rlim_t>(most), static_cast<rlim_t>(most)};
    ::setrlimit(RLIMIT_NOFILE, &files);
  }
  say("starting");
  const Failure failure = job.open(setting.url(), setting.rank, setting.size, setting.options);
  if (failure.status == HVD_OK) {
    // The others came through before the end of that rank; then the loss is seen here.
    say("opened");
    const Failure lost = stream(job, "barrier", true);
    say("lost %d %d %s", lost.status, lost.rank, lost.message.c_str());
  } else {
    say("refused %d %d %s", failure.status, failure.rank, failure.message.c_str());
  }
  return 0;
}

}  // namespace hvd::testing
