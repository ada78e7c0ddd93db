// SPDX-License-Identifier: Apache-2.0
// Timelines of ranks, over hvd.h.
#include <fstream>
#include <mutex>
#include <sstream>

#include "base/clock.h"
#include "unit/context/ranks.h"

namespace hvd::testing {
namespace {

std::string fresh_path() {
  static std::atomic<int> count{0};
  return ::testing::TempDir() + "timeline-" + std::to_string(::getpid()) + "-" +
         std::to_string(++count) + ".json";
}

std::string path_of(const std::string& path, int rank) {
  const std::string stem = path.substr(0, path.size() - 5);
  return rank == 0 ? path : stem + ".rank" + std::to_string(rank) + ".json";
}

std::string content(const std::string& path) {
  std::ostringstream out;
  out << std::ifstream(path).rdbuf();
  return out.str();
}

// The number behind the first `name` in the text; fails if there is none.
int64_t number_of(const std::string& text, const std::string& name) {
  const size_t at = text.find('"' + name + "\":");
  EXPECT_NE(at, std::string::npos) << name << " in " << text;
  return at == std::string::npos ? 0 : std::atoll(text.c_str() + at + name.size() + 3);
}

Failure start(Job& job, const std::string& path) {
  hvd_error error = HVD_ERROR_INIT;
  const hvd_status status = hvd_timeline_start(job.get(), path.c_str(), 0, &error);
  return {status, -1, error.message};
}

void stop(Job& job) {
  hvd_error error = HVD_ERROR_INIT;
  EXPECT_EQ(hvd_timeline_stop(job.get(), &error), HVD_OK) << error.message;
}

TEST(Timeline, HoldsWhatIsSubmittedBetweenStartAndStop) {
  const std::string path = fresh_path();
  run_ranks(2, [&path](Job& job) {
    std::vector<float> data(1 << 16, 1.0F);
    EXPECT_EQ(job.sum(data, "before").status, HVD_OK);
    EXPECT_EQ(start(job, path).status, HVD_OK);
    EXPECT_EQ(job.sum(data, "within").status, HVD_OK);
    stop(job);
    EXPECT_EQ(job.sum(data, "after").status, HVD_OK);
    const std::string text = content(path_of(path, job.rank()));
    EXPECT_EQ(text.find("\"before\""), std::string::npos);
    EXPECT_NE(text.find("\"within\""), std::string::npos);
    EXPECT_NE(text.find("\"HVD_ALLREDUCE\""), std::string::npos);
    EXPECT_NE(text.find("\"[65536]\""), std::string::npos) << text;
    EXPECT_EQ(text.find("\"after\""), std::string::npos);
    EXPECT_EQ(number_of(text, "rank"), job.rank());
    EXPECT_EQ(number_of(text, "clock_error_ns"), 0);
  });
}

TEST(Timeline, EndsWithTheContext) {
  const std::string path = fresh_path();
  Job job;
  ASSERT_EQ(job.open(fresh_url(), 0, 1, {}).status, HVD_OK);
  ASSERT_EQ(start(job, path).status, HVD_OK);
  std::vector<float> data(4, 1.0F);
  EXPECT_EQ(job.sum(data, "last").status, HVD_OK);
  EXPECT_EQ(job.close().status, HVD_OK);
  EXPECT_NE(content(path).find("\"last\""), std::string::npos);
}

TEST(Timeline, SaysWhatKeepsItFromStarting) {
  Job job;
  ASSERT_EQ(job.open(fresh_url(), 0, 1, {{"flight_recorder", "0"}}).status, HVD_OK);
  const Failure refused = start(job, fresh_path());
  EXPECT_EQ(refused.status, HVD_ERR_INVALID_STATE);
  EXPECT_NE(refused.message.find("flight_recorder"), std::string::npos) << refused.message;
  EXPECT_EQ(job.close().status, HVD_OK);

  Job other;
  ASSERT_EQ(other.open(fresh_url(), 0, 1, {}).status, HVD_OK);
  const Failure failed = start(other, "/no/such/folder/t.json");
  EXPECT_EQ(failed.status, HVD_ERR_INVALID_ARGUMENT);
  EXPECT_NE(failed.message.find("/no/such/folder/t.json"), std::string::npos) << failed.message;
  EXPECT_EQ(start(other, "").status, HVD_ERR_INVALID_ARGUMENT);
  EXPECT_EQ(hvd_timeline_start(other.get(), nullptr, 0, nullptr), HVD_ERR_INVALID_ARGUMENT);
  EXPECT_EQ(other.close().status, HVD_OK);
}

// Hosts that one machine plays have one clock, which the measured offsets must allow for.
TEST(Timeline, ComparesTheClocksOfHosts) {
  const std::string path = fresh_path();
  std::mutex mutex;
  std::vector<std::pair<int64_t, int64_t>> clocks(4);  // offset and error
  run_ranks(
      4,
      [&](Job& job) {
        EXPECT_EQ(start(job, path).status, HVD_OK);
        stop(job);
        const std::string text = content(path_of(path, job.rank()));
        const std::lock_guard<std::mutex> lock(mutex);
        clocks[static_cast<size_t>(job.rank())] = {number_of(text, "clock_offset_ns"),
                                                   number_of(text, "clock_error_ns")};
      },
      [](int rank) {
        return Job::Settings{{"hostname", "host" + std::to_string(rank / 2)},
                             {"timeline", "DYNAMIC"}};
      });
  EXPECT_EQ(clocks[0], (std::pair<int64_t, int64_t>(0, 0)));
  EXPECT_EQ(clocks[1], clocks[0]);
  EXPECT_EQ(clocks[3], clocks[2]);
  EXPECT_GT(clocks[2].second, 0);
  EXPECT_LE(std::abs(clocks[2].first), clocks[2].second);
  EXPECT_LT(clocks[2].second, 200'000'000);
}

TEST(Timeline, OfSomeRanksOnlyKeepsNobodyWaiting) {
  const std::string path = fresh_path();
  const Time before = now();
  run_ranks(
      2,
      [&path](Job& job) {
        std::vector<float> data(4, 1.0F);
        EXPECT_EQ(job.sum(data, "x").status, HVD_OK);
        if (job.rank() != 0) return;
        stop(job);
        EXPECT_NE(content(path).find("\"clock_offset_ns\":null"), std::string::npos);
      },
      [&path](int rank) {
        Job::Settings settings{{"hostname", "host" + std::to_string(rank)}};
        if (rank == 0) settings.emplace_back("timeline", path);
        return settings;
      });
  EXPECT_LT(now() - before, std::chrono::seconds(20));
}

}  // namespace
}  // namespace hvd::testing
