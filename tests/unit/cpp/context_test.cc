// SPDX-License-Identifier: Apache-2.0
// Contexts come, move, tell and go.
#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <stdexcept>

#include "unit/cpp/ranks.h"

namespace hvd::testing {
namespace {

TEST(CppContext, KnowsItsPlace) {
  run_contexts(3, [](Context& job) {
    EXPECT_EQ(job.size(), 3);
    EXPECT_EQ(job.local_size(), 3);
    EXPECT_EQ(job.local_rank(), job.rank());
    EXPECT_EQ(job.cross_size(), 1);
    EXPECT_EQ(job.cross_rank(), 0);
    EXPECT_TRUE(job.homogeneous());
    EXPECT_EQ(job.membership().epoch, 0);  // the members of this job are fixed
    EXPECT_EQ(job.try_leave().error().status(), HVD_ERR_INVALID_STATE);
    EXPECT_TRUE(job.try_status());
  });
}

TEST(CppContext, OptionsAndMetrics) {
  run_contexts(1, [](Context& job) {
    EXPECT_EQ(job.option("fusion_threshold"), "134217728");
    job.set_option("fusion_threshold", "1024");
    EXPECT_EQ(job.option("fusion_threshold"), "1024");
    EXPECT_EQ(job.option("hostname"), "here");
    EXPECT_THROW(job.set_option("hostname", "x"), UsageError);
    const auto unknown = job.try_option("nosuch");
    ASSERT_FALSE(unknown);
    EXPECT_EQ(unknown.error().status(), HVD_ERR_NOT_FOUND);
    EXPECT_TRUE(unknown.error().is_usage());
    bool found = false;
    for (const hvd_metric& metric : job.metrics())
      found = found || std::string(metric.name) == "operations_submitted";
    EXPECT_TRUE(found);
    std::vector<float> data(10);
    job.allreduce(data, {.name = "recorded"}).wait();
    for (const hvd_histogram& histogram : job.histograms()) {
      if (std::string(histogram.name) != "operation_size") continue;
      EXPECT_EQ(histogram.value_count, 1U);
      EXPECT_EQ(histogram.sum, 40U);
    }
    const hvd_record record = job.records().back();
    EXPECT_STREQ(record.name, "recorded");
    EXPECT_EQ(record.bytes, 40u);
    EXPECT_TRUE(job.records(record.number).empty());
    EXPECT_EQ(job.try_start_timeline("/no/such/folder/t.json").error().sys_errno(), ENOENT);
    EXPECT_EQ(job.try_start_timeline(std::string("t\0", 2)).error().status(),
              HVD_ERR_INVALID_ARGUMENT);
    job.stop_timeline();
    if (job.rank() == 0) {
      EXPECT_EQ(job.world().arrivals(record.use).size(), job.world().ranks().size());
    }
  });
}

TEST(CppContext, WhatCannotBeOpenedSaysWhy) {
  const auto context = Context::try_open(place(5, 2, fresh_place()));
  ASSERT_FALSE(context);
  EXPECT_EQ(context.error().message(), "init: rank is 5, size is 2; rank must be below size");
  EXPECT_THROW(Context(place(5, 2, fresh_place())), UsageError);
}

TEST(CppContext, TextsWithNullCharactersAreRefused) {
  const std::string text("a\0b", 3);
  InitOptions options = place(0, 1, fresh_place());
  const std::string rendezvous = std::exchange(options.rendezvous, text);
  EXPECT_EQ(Context::try_open(options).error().message(),
            "the rendezvous \"a\\x00b\" has a null character");
  options.rendezvous = rendezvous;
  options.options.emplace_back("hostname", text);
  EXPECT_EQ(Context::try_open(options).error().message(),
            "the value of hostname \"a\\x00b\" has a null character");
  options.options.back().second = "here";
  Context job(options);
  EXPECT_EQ(job.try_option(text).error().message(), "the option \"a\\x00b\" has a null character");
  EXPECT_THROW(job.set_option("fusion_threshold", std::string("1\0002", 3)), UsageError);
  EXPECT_FALSE(has_feature(std::string("tcp\0x", 5)));
}

TEST(CppContext, MovesWithItsLogAndEndsTheOneBefore) {
  std::mutex mutex;
  std::vector<std::string> lines;
  InitOptions options = place(0, 1, fresh_place());
  options.options.emplace_back("log_level", "info");
  options.log = [&](hvd_log_level level, int rank, const char* component, const char* message) {
    std::lock_guard<std::mutex> lock(mutex);
    lines.push_back(std::to_string(level) + " " + std::to_string(rank) + " " + component + ": " +
                    message);
  };
  Context first(options);
  Context second(place(0, 1, fresh_place()));
  second = std::move(first);
  std::vector<int> data(1, 7);
  second.allreduce(data).wait();
  EXPECT_EQ(data[0], 7);
  std::lock_guard<std::mutex> lock(mutex);
  ASSERT_FALSE(lines.empty());
  EXPECT_NE(lines[0].find("2 0 context: rank 0 of 1"), std::string::npos) << lines[0];
}

TEST(CppContext, WithoutALogFunctionAStallIsToldOnStandardError) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  const int before = ::dup(STDERR_FILENO);
  ::dup2(ends[1], STDERR_FILENO);
  std::string told;
  run_contexts(2, [&](Context& job) {
    job.set_option("stall_check_time_seconds", "1");
    std::vector<int> data(1, 1);
    // Rank 1 comes when it has read of its absence.
    pollfd waiting{ends[0], POLLIN, 0};
    if (job.rank() == 1 && ::poll(&waiting, 1, 30000) == 1) {
      std::array<char, 4096> bytes{};
      told.assign(bytes.data(),
                  static_cast<std::size_t>(::read(ends[0], bytes.data(), bytes.size())));
    }
    job.allreduce(data, {.name = "late"}).wait();
  });
  ::dup2(before, STDERR_FILENO);
  for (const int fd : {before, ends[0], ends[1]}) ::close(fd);
  EXPECT_NE(told.find(": W stall] [0]: "), std::string::npos) << told;
  EXPECT_NE(told.find("late"), std::string::npos) << told;
}

TEST(CppContext, WhatIsLeftOverOutlivesIt) {
  std::vector<float> data(1, 1.0f);
  Pending pending;
  std::optional<ProcessSet> world;
  {
    Context job(place(0, 1, fresh_place()));
    world = job.world();
    pending = job.allreduce(data);
    pending.wait();
  }
  pending.wait();
  EXPECT_TRUE(pending.ready());
  EXPECT_EQ(pending.result<float>().data[0], 1.0f);
  EXPECT_EQ(world->size(), 1);
  EXPECT_EQ(world->ranks(), std::vector<std::int32_t>{0});
  EXPECT_FALSE(world->try_destroy());
}

TEST(CppContext, OperationsThatOutliveItEnd) {
  const std::string url = fresh_place();
  std::vector<float> data(1, 1.0f);
  Pending waiting, told;
  std::atomic<int> status{0};
  std::thread other([&] { Context(place(1, 2, url)).barrier({.name = "here"}).wait(); });
  {
    Context job(place(0, 2, url));
    waiting = job.allreduce(data, {.name = "alone"});
    told = job.allreduce(data, {.name = "told"});
    told.then([&](Expected<void> result) { status = result ? HVD_OK : result.error().status(); });
    job.barrier({.name = "here"}).wait();
  }
  EXPECT_EQ(status, HVD_ERR_SHUT_DOWN);  // a context calls back before it ends
  EXPECT_THROW(waiting.wait(), ShutDownError);
  EXPECT_FALSE(waiting.try_result<float>());
  other.join();
}

TEST(CppContext, WhatHasBeenMovedAwayRefuses) {
  Context job(place(0, 1, fresh_place()));
  ProcessSet world = job.world();
  const Context other = std::move(job);
  const ProcessSet same = std::move(world);
  std::vector<float> data(1, 1.0f);
  EXPECT_THROW((void)job.allreduce(data),
               UsageError);                   // NOLINT: what moving leaves behind is the question
  EXPECT_THROW(job.status(), UsageError);     // NOLINT
  EXPECT_THROW(job.world(), UsageError);      // NOLINT
  EXPECT_THROW(job.metrics(), UsageError);    // NOLINT
  EXPECT_FALSE(job.pop_completed().valid());  // NOLINT
  EXPECT_EQ(world.size(), 0);                 // NOLINT
  Pending none;
  EXPECT_THROW(none.wait(), UsageError);
  EXPECT_TRUE(none.ready());
  EXPECT_EQ(none.result_count(), 0u);
  EXPECT_THROW(none.then([](Expected<void>) {}), UsageError);
  EXPECT_TRUE(other.try_status());
}

TEST(CppContext, CompletionsForAnEventLoop) {
  run_contexts(2, [](Context& job) {
    pollfd ended{job.completions_fd(), POLLIN, 0};
    std::vector<float> data(1, 1.0f);
    const Pending pending = job.allreduce(data, {.name = "x"});
    ASSERT_EQ(::poll(&ended, 1, 10000), 1);
    Pending popped = job.pop_completed();
    ASSERT_TRUE(popped.valid());
    EXPECT_EQ(popped.handle(), pending.handle());
    popped.wait();
    EXPECT_EQ(data[0], 2.0f);
    EXPECT_FALSE(job.pop_completed().valid());
  });
}

// What rank 0 writes, the others read; `fail` refuses everything.
class MapStore : public Store {
 public:
  Expected<void> set(const std::string& key, std::span<const std::byte> value) override {
    if (fail) throw std::runtime_error("no store today");
    const std::lock_guard<std::mutex> lock(mutex_);
    values_[key].assign(value.begin(), value.end());
    changed_.notify_all();
    return {};
  }
  Expected<Bytes> get(const std::string& key,
                      std::optional<std::chrono::nanoseconds> limit) override {
    std::unique_lock<std::mutex> lock(mutex_);
    const auto there = [&] { return values_.count(key) != 0; };
    if (!limit) changed_.wait(lock, there);
    if (limit && !changed_.wait_for(lock, *limit, there))
      return Error(HVD_ERR_TIMEOUT, "nobody came");
    return values_[key];
  }
  Expected<std::int64_t> add(const std::string& key, std::int64_t delta) override {
    if (fail) return Error(HVD_ERR_IO, "no store today");
    const std::lock_guard<std::mutex> lock(mutex_);
    return counters_[key] += delta;
  }
  Expected<void> remove(const std::string& key) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    values_.erase(key);
    return {};
  }

  bool fail = false;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, Bytes> values_;
  std::map<std::string, std::int64_t> counters_;
};

TEST(CppContext, RanksMeetInAStoreOfTheProgram) {
  MapStore store;
  const auto rank = [&store](int number) {
    InitOptions options = place(number, 2, "");
    options.store = &store;
    Context job(options);
    std::vector<int> data(1, job.rank() + 1);
    job.allreduce(data).wait();
    EXPECT_EQ(data[0], 3);
    job.barrier().wait();
  };
  std::thread other(rank, 1);
  rank(0);
  other.join();
  store.fail = true;
  InitOptions options = place(0, 2, "");
  options.store = &store;
  const auto refused = Context::try_open(options);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message(), "");
}

TEST(CppLibrary, TellsWhatItIs) {
  EXPECT_EQ(version(), static_cast<std::uint32_t>(HVD_VERSION));
  EXPECT_STREQ(version_string(), HVD_VERSION_STRING);
  EXPECT_TRUE(has_feature("shm"));
  EXPECT_FALSE(has_feature("nosuch"));
  const std::vector<OptionInfo> table = option_table();
  const auto found = std::find_if(table.begin(), table.end(), [](const OptionInfo& option) {
    return std::string(option.name) == "fusion_threshold";
  });
  ASSERT_NE(found, table.end());
  EXPECT_STREQ(found->default_value, "134217728");
  EXPECT_STRNE(found->help, "");
  ASSERT_NE(metric_help("operations_submitted"), nullptr);
  EXPECT_STRNE(metric_help("operations_submitted"), "");
  EXPECT_EQ(metric_help("nosuch"), nullptr);
}

TEST(CppContext, AfterShutdownOperationsAreRefusedAndThoseInFlightEnd) {
  const std::string url = fresh_place();
  std::thread other([&] {
    Context job(place(1, 2, url));
    std::vector<float> data(1, 1.0f);
    EXPECT_THROW(job.allreduce(data, {.name = "x"}).wait(), ShutDownError);
  });
  Context job(place(0, 2, url));
  job.shutdown();
  job.shutdown();
  std::vector<float> data(1, 1.0f);
  EXPECT_THROW(job.allreduce(data, {.name = "x"}).wait(), ShutDownError);
  EXPECT_EQ(job.try_status().error().status(), HVD_ERR_SHUT_DOWN);
  EXPECT_TRUE(job.try_status().error().is_context());
  other.join();
}

}  // namespace
}  // namespace hvd::testing
