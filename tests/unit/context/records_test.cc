// SPDX-License-Identifier: Apache-2.0
// What the flight recorder says of operations, over hvd.h.
#include <chrono>
#include <set>
#include <thread>

#include "base/clock.h"
#include "unit/context/ranks.h"

namespace hvd::testing {
namespace {

constexpr int64_t kMillisecond = 1'000'000;

int64_t nanoseconds() { return now().time_since_epoch().count(); }

std::vector<hvd_record> records_of(Job& job, uint64_t after = 0) {
  std::vector<hvd_record> records(5000);
  size_t count = records.size();
  hvd_error error = HVD_ERROR_INIT;
  EXPECT_EQ(hvd_records_snapshot(job.get(), after, records.data(), &count, &error), HVD_OK)
      << error.message;
  records.resize(count);
  return records;
}

hvd_record record_of(Job& job, const std::string& name) {
  for (const hvd_record& record : records_of(job))
    if (name == record.name) return record;
  ADD_FAILURE() << "no record of " << name;
  return {};
}

TEST(Records, TellWhenAnOperationRanAndWhereItsTimeWent) {
  run_ranks(2, [](Job& job) {
    const int64_t before = nanoseconds();
    std::vector<float> data(1 << 20, 1.0F);
    EXPECT_EQ(job.sum(data, "large").status, HVD_OK);
    const int64_t after = nanoseconds();
    const hvd_record record = record_of(job, "large");
    EXPECT_STREQ(record.kind, "allreduce");
    EXPECT_EQ(record.process_set, 0);
    EXPECT_EQ(record.status, HVD_OK);
    EXPECT_EQ(record.dtype, HVD_FLOAT32);
    EXPECT_EQ(record.reduce_op, HVD_SUM);
    EXPECT_EQ(record.tensors, 1U);
    EXPECT_EQ(record.ndim, 1);
    EXPECT_EQ(record.shape[0], 1 << 20);
    EXPECT_EQ(record.shape[1], 0);
    EXPECT_EQ(record.bytes, data.size() * sizeof(float));
    EXPECT_EQ(record.group_bytes, record.bytes);
    EXPECT_EQ(record.group_operations, 1U);
    // ticks and the clock are read one after another
    constexpr int64_t kApart = kMillisecond;
    EXPECT_GE(record.submitted, before);
    EXPECT_GE(record.agreed, record.submitted - kApart);
    EXPECT_GE(record.begun, record.agreed);
    EXPECT_GE(record.ended, record.begun);
    EXPECT_LE(record.ended, after + kApart);
    EXPECT_GT(record.reduced, 0);
    EXPECT_GT(record.copied, 0);
    EXPECT_GE(record.waited, 0);
    EXPECT_LE(record.waited + record.reduced + record.copied, record.ended - record.begun + kApart);
  });
}

TEST(Records, NameTheRankThatCameLast) {
  run_ranks(3, [](Job& job) {
    std::vector<float> data(1, 1.0F);
    EXPECT_EQ(job.sum(data, "together").status, HVD_OK);
    if (job.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(30));
    EXPECT_EQ(job.sum(data, "late").status, HVD_OK);
    const hvd_record record = record_of(job, "late");
    EXPECT_EQ(record.last_rank, 1);
    EXPECT_GE(record.spread, 25 * kMillisecond);
    EXPECT_GT(record.use, record_of(job, "together").use);

    int64_t times[3] = {};
    size_t count = 3;
    hvd_error error = HVD_ERROR_INIT;
    const hvd_status status =
        hvd_record_arrivals(hvd_process_set_world(job.get()), record.use, times, &count, &error);
    if (job.rank() != 0) {
      EXPECT_EQ(status, HVD_ERR_NOT_FOUND);
      return;
    }
    ASSERT_EQ(status, HVD_OK) << error.message;
    EXPECT_EQ(count, 3U);
    EXPECT_GE(times[1] - times[0], 25 * kMillisecond);
    EXPECT_GE(times[1] - times[2], 25 * kMillisecond);
    EXPECT_EQ(hvd_record_arrivals(hvd_process_set_world(job.get()), record.use + 1000, times,
                                  &count, &error),
              HVD_ERR_NOT_FOUND);
  });
}

TEST(Records, NameTheRankForWhichDataWaited) {
  run_ranks(2, [](Job& job) {
    // too large for the memory that ranks share, so the late rank must act again and again
    std::vector<float> data(8 << 20, 1.0F);
    EXPECT_EQ(job.sum(data, "waits").status, HVD_OK);
    const hvd_record record = record_of(job, "waits");
    EXPECT_EQ(record.waited_for, record.waited == 0 ? -1 : 1 - job.rank());
  });
}

TEST(Records, ShowOperationsInFlightLast) {
  run_ranks(2, [](Job& job) {
    std::vector<float> data(8, 1.0F);
    EXPECT_EQ(job.sum(data, "first").status, HVD_OK);
    if (job.rank() == 0) {
      hvd_handle* handle = nullptr;
      EXPECT_EQ(job.start_sum(data, named("waits"), &handle).status, HVD_OK);
      const hvd_record record = records_of(job).back();
      EXPECT_STREQ(record.name, "waits");
      EXPECT_EQ(record.number, 0U);
      EXPECT_EQ(record.status, HVD_PENDING);
      EXPECT_EQ(record.ended, 0);
      EXPECT_EQ(job.barrier("look").status, HVD_OK);
      EXPECT_EQ(Job::wait(handle).status, HVD_OK);
    } else {
      EXPECT_EQ(job.barrier("look").status, HVD_OK);
      EXPECT_EQ(job.sum(data, "waits").status, HVD_OK);
    }
    EXPECT_EQ(record_of(job, "waits").status, HVD_OK);
  });
}

TEST(Records, GoOnFromANumberAndKeepTheLast4096) {
  run_ranks(2, [](Job& job) {
    std::vector<float> data(1, 1.0F);
    for (int i = 0; i < 5000; ++i) {
      data[0] = 1.0F;
      ASSERT_EQ(job.sum(data, ("n" + std::to_string(i)).c_str()).status, HVD_OK);
    }
    const std::vector<hvd_record> records = records_of(job);
    ASSERT_EQ(records.size(), 4096U);
    std::set<uint64_t> uses;
    for (const hvd_record& record : records) {
      EXPECT_STREQ(record.name, ("n" + std::to_string(record.number - 1)).c_str());
      uses.insert(record.use);
    }
    EXPECT_EQ(uses.size(), records.size());
    EXPECT_EQ(records_of(job, records.back().number - 3).size(), 3U);
    hvd_record few[2];
    size_t count = 2;
    EXPECT_EQ(hvd_records_snapshot(job.get(), 0, few, &count, nullptr), HVD_OK);
    EXPECT_EQ(count, 2U);
    EXPECT_EQ(few[0].number, records[0].number);
  });
}

TEST(Records, TellOfAnOperationThatFailed) {
  run_ranks(2, [](Job& job) {
    std::vector<float> data(static_cast<size_t>(job.rank() + 1), 1.0F);
    EXPECT_EQ(job.sum(data, "differs").status, HVD_ERR_MISMATCH);
    EXPECT_EQ(record_of(job, "differs").status, HVD_ERR_MISMATCH);
  });
}

// The engine holds operations back until all three are there.
Job::Settings three_together(int) {
  return {{"cycle_time", "20000"}, {"fusion_threshold", "120000"}};
}

TEST(Records, OperationsOfAGroupShareIt) {
  const auto body = [](Job& job) {
    std::vector<float> data[3];
    hvd_handle* handles[3] = {};
    EXPECT_EQ(hvd_burst_begin(job.get(), nullptr), HVD_OK);
    for (int i = 0; i < 3; ++i) {
      data[i].assign(10000, 1.0F);
      const std::string name = "g" + std::to_string(i);
      EXPECT_EQ(job.start_sum(data[i], named(name.c_str()), &handles[i]).status, HVD_OK);
    }
    EXPECT_EQ(hvd_burst_end(job.get(), nullptr), HVD_OK);
    for (hvd_handle* handle : handles) EXPECT_EQ(Job::wait(handle).status, HVD_OK);
    const hvd_record first = record_of(job, "g0");
    EXPECT_EQ(record_of(job, "g2").group, first.group);
    EXPECT_EQ(first.group_operations, 3U);
    EXPECT_EQ(first.group_bytes, 3 * first.bytes);
    // the barrier at the end is not to wait for more
    hvd_option_set(job.get(), "cycle_time", "0", nullptr);
  };
  run_ranks(2, body, three_together);
}

TEST(Records, CanBeReadWhileOperationsRun) {
  run_ranks(2, [](Job& job) {
    std::atomic<bool> stop{false};
    std::thread reader([&] {
      while (!stop.load())
        for (const hvd_record& record : records_of(job))
          EXPECT_TRUE(record.number == 0 || record.ended >= record.begun) << record.name;
    });
    std::vector<float> data(3000, 1.0F);
    for (int i = 0; i < 2000; ++i)
      EXPECT_EQ(job.sum(data, i % 2 == 0 ? "even" : "odd").status, HVD_OK);
    stop.store(true);
    reader.join();
  });
}

TEST(Records, CanBeTurnedOff) {
  run_ranks(
      2,
      [](Job& job) {
        std::vector<float> data(1, 1.0F);
        EXPECT_EQ(job.sum(data, "x").status, HVD_OK);
        size_t count = 0;
        hvd_error error = HVD_ERROR_INIT;
        EXPECT_EQ(hvd_records_snapshot(job.get(), 0, nullptr, &count, &error),
                  HVD_ERR_INVALID_STATE);
        EXPECT_NE(std::string(error.message).find("flight_recorder"), std::string::npos);
      },
      [](int) { return Job::Settings{{"flight_recorder", "0"}}; });
}

TEST(Records, CutALongNameInItsMiddle) {
  run_ranks(2, [](Job& job) {
    std::vector<float> data(1, 1.0F);
    const std::string name = "begin" + std::string(300, '.') + "end";
    EXPECT_EQ(job.sum(data, name.c_str()).status, HVD_OK);
    const std::string kept = records_of(job).back().name;
    EXPECT_LT(kept.size(), 128U);
    EXPECT_EQ(kept.substr(0, 5), "begin");
    EXPECT_EQ(kept.substr(kept.size() - 3), "end");
  });
}

}  // namespace
}  // namespace hvd::testing
