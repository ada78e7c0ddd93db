// SPDX-License-Identifier: Apache-2.0
// The memory of the flight recorder as another process sees it, through the file.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <bit>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "base/fd.h"
#include "engine/flight_layout.h"
#include "unit/context/ranks.h"

namespace hvd::testing {
namespace {

using engine::FlightHeader;
using engine::FlightRing;

// A file for each rank, in a folder of its own.
class Files {
 public:
  Files() {
    char name[] = "/tmp/hvd-flight-XXXXXX";
    folder_ = mkdtemp(name);
  }
  ~Files() { std::filesystem::remove_all(folder_); }
  std::string of(int rank) const { return folder_ + "/" + std::to_string(rank); }
  const std::string& folder() const { return folder_; }

 private:
  std::string folder_;
};

class View {
 public:
  explicit View(const std::string& file) {
    const Fd fd(open(file.c_str(), O_RDONLY | O_CLOEXEC));
    if (fd) bytes_ = static_cast<size_t>(lseek(fd.get(), 0, SEEK_END));
    if (bytes_ == 0) return;
    void* memory = mmap(nullptr, bytes_, PROT_READ, MAP_SHARED, fd.get(), 0);
    if (memory != MAP_FAILED) memory_ = static_cast<std::byte*>(memory);
  }
  ~View() {
    if (memory_ != nullptr) munmap(memory_, bytes_);
  }
  View(const View&) = delete;
  View& operator=(const View&) = delete;

  bool in_use() const {
    return memory_ != nullptr &&
           header().magic.load() == std::bit_cast<uint64_t>(engine::kFlightMagic);
  }
  const FlightHeader& header() const { return *reinterpret_cast<const FlightHeader*>(memory_); }
  template <class T>
  T newest(const FlightRing& ring) const {
    const uint64_t number = ring.newest.load();
    T value;
    EXPECT_EQ(ring.slot_bytes, sizeof(T) + sizeof number);
    const std::byte* slot = memory_ + ring.offset + (number % ring.slots) * ring.slot_bytes;
    uint64_t found = 0;
    std::memcpy(&found, slot, sizeof found);
    EXPECT_EQ(found, number);
    std::memcpy(static_cast<void*>(&value), slot + sizeof number, sizeof value);
    return value;
  }

 private:
  size_t bytes_ = 0;
  std::byte* memory_ = nullptr;
};

template <class Settings>
auto in_files(const Files& files, Settings more) {
  return [&files, more](int rank) {
    Job::Settings settings = more;
    settings.emplace_back("flight_file", files.of(rank));
    return settings;
  };
}

TEST(FlightMemory, ShowsTheLastOperationToWhoReadsTheFile) {
  const Files files;
  run_ranks(
      2,
      [&](Job& job) {
        std::vector<float> data(6, 1.0F);
        ASSERT_EQ(job.sum(data, "seen").status, HVD_OK);
        const View view(files.of(job.rank()));
        ASSERT_TRUE(view.in_use());
        const FlightHeader& header = view.header();
        EXPECT_EQ(header.header_bytes, sizeof(FlightHeader));
        EXPECT_EQ(header.rank, job.rank());
        EXPECT_EQ(header.size, 2);
        EXPECT_EQ(header.pid, getpid());
        EXPECT_EQ(header.state.load(), 1);
        EXPECT_EQ(header.submitted.load(), header.operations.newest.load());
        const auto operation = view.newest<engine::OperationRecord>(header.operations);
        EXPECT_EQ(operation.bytes, 6 * sizeof(float));
        EXPECT_EQ(operation.ndim, 1);
        EXPECT_EQ(operation.shape[0], 6);
        EXPECT_EQ(operation.tensors, 1U);
        EXPECT_STREQ(view.newest<engine::LabelRecord>(header.labels).name.data(), "seen");
      },
      in_files(files, Job::Settings{}));
  const View view(files.of(1));
  ASSERT_TRUE(view.in_use());
  EXPECT_EQ(view.header().state.load(), 2);
}

TEST(FlightMemory, SaysForWhomARankWaits) {
  const Files files;
  run_ranks(
      3,
      [&](Job& job) {
        std::vector<float> data(8, 1.0F);
        if (job.rank() == 2) {
          std::this_thread::sleep_for(std::chrono::milliseconds(700));
          const View waiting(files.of(1));
          ASSERT_TRUE(waiting.in_use());
          const auto wait = waiting.newest<engine::WaitRecord>(waiting.header().waits);
          EXPECT_STREQ(wait.name.data(), "awaited");
          EXPECT_EQ(wait.in_flight, 1U);
          EXPECT_EQ(wait.planned, 0);
          EXPECT_GT(wait.at, wait.submitted);
          ASSERT_GT(waiting.header().stalls.newest.load(), 0U);
          const auto stall = waiting.newest<engine::StallRecord>(waiting.header().stalls);
          EXPECT_STREQ(stall.name.data(), "awaited");
          EXPECT_EQ(stall.missing_count, 1);
          EXPECT_EQ(stall.missing[0], 2);
          EXPECT_NE(std::string(stall.text.data()).find("missing ranks 2 of 3"), std::string::npos)
              << stall.text.data();
        }
        EXPECT_EQ(job.sum(data, "awaited").status, HVD_OK);
      },
      in_files(files, Job::Settings{{"stall_check_time_seconds", "0.2"}}));
}

TEST(FlightMemory, IsUsedAgainByTheNextContext) {
  const Files files;
  for (int round = 0; round < 2; ++round) {
    run_ranks(
        2,
        [&](Job& job) {
          const View view(files.of(job.rank()));
          ASSERT_TRUE(view.in_use());
          EXPECT_EQ(view.header().state.load(), 1);
          EXPECT_EQ(view.header().operations.newest.load(), 0U);
          std::vector<float> data(1, 1.0F);
          EXPECT_EQ(job.sum(data, "again").status, HVD_OK);
        },
        in_files(files, Job::Settings{}));
  }
}

TEST(FlightMemory, ASecondContextAndAnImpossibleFileGetPrivateMemory) {
  const Files files;
  const auto records_one = [](Job& job) {
    std::vector<float> data(1, 1.0F);
    ASSERT_EQ(job.sum(data, "x").status, HVD_OK);
    size_t count = 0;
    EXPECT_EQ(hvd_records_snapshot(job.get(), 0, nullptr, &count, nullptr), HVD_OK);
    EXPECT_GE(count, 1U);
  };
  run_ranks(2, records_one, [&](int) { return Job::Settings{{"flight_file", files.of(0)}}; });
  const View view(files.of(0));
  ASSERT_TRUE(view.in_use());
  run_ranks(2, records_one,
            [&](int) { return Job::Settings{{"flight_file", files.folder() + "/none/file"}}; });
}

}  // namespace
}  // namespace hvd::testing
