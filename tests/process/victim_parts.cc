// SPDX-License-Identifier: Apache-2.0
// Whole jobs that check themselves; the driver starts the ranks and gives orders where the order
// matters.
#include <dirent.h>
#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <thread>

#include "process/victim.h"

namespace hvd::testing {

namespace {

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// Says good if the failure is as expected, else ends the process.
void expect_failure(const Failure& failure, hvd_status status, const std::string& part) {
  if (failure.status == status && contains(failure.message, part)) return;
  give_up(__FILE__, __LINE__,
          ("expected " + std::string(hvd_status_name(status)) + " with " + part).c_str(), failure);
}

int finish(Job& job) {
  VICTIM_OK(job.barrier("end"));
  VICTIM_OK(job.close());
  say("good");
  return 0;
}

// Of all threads but this one, which sleeps and reads files to measure.
long voluntary_switches() {
  long sum = 0;
  const std::string myself = std::to_string(::syscall(SYS_gettid));
  DIR* tasks = ::opendir("/proc/self/task");
  while (const dirent* entry = ::readdir(tasks)) {
    if (entry->d_name[0] == '.' || entry->d_name == myself) continue;
    std::ifstream status(std::string("/proc/self/task/") + entry->d_name + "/status");
    for (std::string line; std::getline(status, line);) {
      if (line.rfind("voluntary_ctxt_switches:", 0) == 0) sum += std::atol(line.c_str() + 24);
    }
  }
  ::closedir(tasks);
  return sum;
}

}  // namespace

// One rank is stopped by a signal; the operations of the others run into their time limit.
int play_stop(const Setting& setting) {
  Job job;
  open_job(job, setting);
  expect_sum(job, 10, "before");
  say("ready");
  VICTIM_CHECK(hear() == "go");
  std::vector<float> data(10, 1.0f);
  const Failure failure = job.sum(data, "stopped");
  expect_failure(failure, HVD_ERR_TIMEOUT, "missing ranks " + setting.text("stopped", "?") + " of");
  say("timed out");
  VICTIM_CHECK(hear() == "on");
  expect_sum(job, 10, "after");
  return finish(job);
}

// One rank leaves while the others have operations that need it.
int play_leave(const Setting& setting) {
  const int leaver = setting.number("leaver", 0);
  Job job;
  open_job(job, setting);
  expect_sum(job, 10, "before");
  if (job.rank() == leaver) {
    sleep_ms(50);
    VICTIM_OK(job.close());
    say("good");
    return 0;
  }
  std::vector<float> data(10, 1.0f);
  const Failure failure = job.sum(data, "alone");
  expect_failure(failure, HVD_ERR_SHUT_DOWN, "rank " + std::to_string(leaver) + " (host");
  VICTIM_CHECK(failure.rank == leaver);
  const Failure later = job.sum(data, "later");
  expect_failure(later, HVD_ERR_SHUT_DOWN, "rank " + std::to_string(leaver) + " (host");
  VICTIM_OK(job.close());
  say("good");
  return 0;
}

// After some traffic nothing is in flight: no thread may wake up.
int play_idle(const Setting& setting) {
  Job job;
  open_job(job, setting);
  for (int i = 0; i < 200; ++i) expect_sum(job, i % 2 == 0 ? 10 : 100000, "traffic");
  VICTIM_OK(job.barrier("quiet"));
  sleep_ms(500);
  const long before = voluntary_switches();
  const int64_t start = now_ns();
  while (now_ns() - start < 2 * kSecond) ::usleep(2'000'000);
  const long after = voluntary_switches();
  say("switches %ld", after - before);
  VICTIM_CHECK(hear() == "end");
  return finish(job);
}

int play_mismatch(const Setting& setting) {
  Job job;
  open_job(job, setting);
  for (int round = 0; round < 20; ++round) {
    const bool odd = job.rank() == job.size() - 1;
    std::vector<float> data(odd ? 5 : 4, 1.0f);
    const Failure failure = job.sum(data, "m");
    expect_failure(failure, HVD_ERR_MISMATCH, "allreduce \"m\": shape differs: rank 0 [4]");
    expect_failure(failure, HVD_ERR_MISMATCH, "rank " + std::to_string(job.size() - 1) + " [5]");
    expect_sum(job, 4, "m");
  }
  VICTIM_OK(job.status());
  return finish(job);
}

// Rank 1 comes to an operation with a limit of its own when the others have given up; the driver
// tells it.
int play_timeout(const Setting& setting) {
  Job job;
  open_job(job, setting);
  for (int round = 0; round < 3; ++round) {
    if (job.rank() == 1) VICTIM_CHECK(hear() == "come");
    std::vector<float> data(4, 1.0f);
    hvd_op_options options = named("t");
    options.timeout_ns = job.rank() == 1 ? 10 * kSecond : kSecond;
    hvd_handle* handle = nullptr;
    const int64_t start = now_ns();
    VICTIM_OK(job.start_sum(data, options, &handle));
    expect_failure(Job::wait(handle), HVD_ERR_TIMEOUT,
                   "missing ranks 1 of " + std::to_string(job.size()));
    if (job.rank() != 1) say("timed out %lld", static_cast<long long>(now_ns() - start));
    VICTIM_OK(job.barrier("together"));
    expect_sum(job, 4, "t");
  }
  return finish(job);
}

int play_stall(const Setting& setting) {
  struct Lines {
    std::mutex mutex;
    std::string text;
    int64_t at = 0;
  } lines;
  const hvd_log_fn log = [](void* data, hvd_log_level level, int32_t, const char*,
                            const char* message) {
    Lines& all = *static_cast<Lines*>(data);
    const std::lock_guard<std::mutex> lock(all.mutex);
    if (level != HVD_LOG_WARN || all.at != 0) return;
    all.text = message;
    all.at = now_ns();
    say("warned");
  };
  Job job;
  VICTIM_OK(job.open(setting.url(), setting.rank, setting.size, setting.options, log, &lines));
  const bool late = job.rank() == job.size() - 1;
  if (late) VICTIM_CHECK(hear() == "come");  // when the others have warned
  const int64_t start = now_ns();
  expect_sum(job, 4, "slow");
  VICTIM_OK(job.barrier("end"));
  const std::lock_guard<std::mutex> lock(lines.mutex);
  if (!late) {
    VICTIM_CHECK(contains(lines.text, "allreduce \"slow\": stalled for "));
    VICTIM_CHECK(contains(lines.text, "missing ranks " + std::to_string(job.size() - 1) + " of "));
    VICTIM_CHECK(lines.at - start >= kSecond && lines.at - start < 10 * kSecond);
  } else {
    VICTIM_CHECK(!contains(lines.text, "\"slow\""));
  }
  VICTIM_OK(job.close());
  say("good");
  return 0;
}

// One rank stands still for so long that the others give it up. They end without a word where
// `abrupt` is given.
int play_frozen(const Setting& setting) {
  const hvd_log_fn log = [](void*, hvd_log_level level, int32_t, const char*, const char* message) {
    if (level == HVD_LOG_WARN) say("warned %s", message);
  };
  Job job;
  VICTIM_OK(job.open(setting.url(), setting.rank, setting.size, setting.options, log));
  expect_sum(job, 10, "before");
  say("ready");
  VICTIM_CHECK(hear() == "go");
  std::vector<float> data(10, 1.0f);
  const Failure failure = job.sum(data, "t");
  say("ended %d %d %s", failure.status, failure.rank, failure.message.c_str());
  const Failure later = job.sum(data, "later");
  say("refused %d %d %s", later.status, later.rank, later.message.c_str());
  if (setting.number("abrupt", 0) != 0) ::_exit(3);
  VICTIM_OK(job.close());
  say("good");
  return 0;
}

// {0, 1} and {2, 3} work at the same time, each at its own pace, while all ranks meet in barriers.
int play_sets(const Setting& setting) {
  Job job;
  open_job(job, setting);
  const int32_t low[] = {1, 0}, high[] = {2, 3};
  hvd_process_set* sets[2] = {};
  VICTIM_CHECK(hvd_process_set_create(job.get(), low, 2, &sets[0], nullptr) == HVD_OK);
  VICTIM_CHECK(hvd_process_set_create(job.get(), high, 2, &sets[1], nullptr) == HVD_OK);
  std::thread world([&] {
    for (int i = 0; i < 50; ++i) VICTIM_OK(job.barrier("world"));
  });
  const bool upper = job.rank() >= 2;
  for (int i = 0; i < 500; ++i)
    expect_sum(job, (upper ? 33 : 7) + static_cast<size_t>(i), "own", sets[upper]);
  world.join();
  hvd_process_set_free(sets[0]);
  hvd_process_set_free(sets[1]);
  return finish(job);
}

int play_churn(const Setting& setting) {
  Job job;
  open_job(job, setting);
  for (int i = 0; i < 50; ++i) {
    const int32_t ranks[] = {0, 1 + i % (job.size() - 1)};
    hvd_process_set* set = nullptr;
    hvd_error error = HVD_ERROR_INIT;
    VICTIM_OK(failure_of(hvd_process_set_create(job.get(), ranks, 2, &set, &error), error));
    VICTIM_CHECK(hvd_process_set_id(set) == 1);  // the id of the last one is used again
    if (hvd_process_set_rank(set) >= 0) expect_sum(job, 100, "inside", set);
    VICTIM_OK(failure_of(hvd_process_set_destroy(set, &error), error));
  }
  expect_sum(job, 10, "world");
  return finish(job);
}

int play_hosts(const Setting& setting) {
  Job job;
  open_job(job, setting);
  hvd_topology topology = HVD_TOPOLOGY_INIT;
  VICTIM_CHECK(hvd_topology_get(job.get(), &topology, nullptr) == HVD_OK);
  VICTIM_CHECK(topology.local_size == 2 && topology.cross_size == 2 && topology.homogeneous == 1);
  for (const size_t length : {size_t{1}, size_t{1000}, size_t{1} << 18, size_t{3'000'001}}) {
    for (int round = 0; round < 3; ++round) expect_sum(job, length, "hosts");
  }
  return finish(job);
}

// More elements than 32 bits count.
int play_huge(const Setting& setting) {
  constexpr int64_t kElements = 2'200'000'000;
  Job job;
  open_job(job, setting);
  auto* data = static_cast<uint8_t*>(std::malloc(kElements));
  VICTIM_CHECK(data != nullptr);
  const auto value = [](int64_t i, int rank) {
    return static_cast<uint8_t>((i * 31 + i / 65521) % (60 + rank));
  };
  for (int64_t i = 0; i < kElements; ++i) data[i] = value(i, job.rank());
  const hvd_tensor tensor = tensor_of(data, &kElements, 1, HVD_UINT8);
  const hvd_op_options options = named("huge");
  hvd_handle* handle = nullptr;
  VICTIM_CHECK(hvd_allreduce_async(job.get(), &tensor, &tensor, &options, &handle, nullptr) ==
               HVD_OK);
  VICTIM_OK(Job::wait(handle, 100 * kSecond));
  const auto right = [&](int64_t i) {
    int sum = 0;
    for (int rank = 0; rank < job.size(); ++rank) sum += value(i, rank);
    return data[i] == static_cast<uint8_t>(sum);
  };
  for (int64_t i = 0; i < 1000; ++i)
    VICTIM_CHECK(right(i) && right(kElements - 1 - i) && right((int64_t{1} << 31) - 500 + i));
  uint64_t place = 88172645463325252u;
  for (int i = 0; i < 1'000'000; ++i) {
    place ^= place << 13, place ^= place >> 7, place ^= place << 17;
    VICTIM_CHECK(right(static_cast<int64_t>(place % kElements)));
  }
  std::free(data);
  return finish(job);
}

// Root may start as many threads as it likes, so it has another real user here, and not the rights
// to ignore that one's limit.
bool allow_no_thread() {
  const rlimit one{1, 1};
  if (::setrlimit(RLIMIT_NPROC, &one) != 0) return false;
  if (::getuid() != 0) return true;
  constexpr uid_t kNobody = 65534;
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct rights[_LINUX_CAPABILITY_U32S_3];
  if (::setresuid(kNobody, 0, 0) != 0 || ::syscall(SYS_capget, &header, rights) != 0) return false;
  rights[0].effective &= ~((1U << CAP_SYS_RESOURCE) | (1U << CAP_SYS_ADMIN));
  return ::syscall(SYS_capset, &header, rights) == 0;
}

int play_limited(const Setting& setting) {
  if (setting.rank == setting.number("limited", -1)) VICTIM_CHECK(allow_no_thread());
  Job job;
  Failure failure = job.open(setting.url(), setting.rank, setting.size, setting.options);
  if (failure.status == HVD_OK) failure = job.barrier("after init");
  say("ended %d %s", failure.status, failure.message.c_str());
  return 0;
}

}  // namespace hvd::testing
