// SPDX-License-Identifier: Apache-2.0
// Tensors on devices and a CUDA-aware MPI: what only moves bytes stays on the devices, the rest
// goes through host memory, and the results are the same.
#include <cstdlib>

#include "unit/device/collective_checks.h"
#include "unit/device/met_ranks.h"

namespace hvd::testing {
namespace {

constexpr int kDevices = 4;

Job::Settings settings(const std::string& cpu = "mpi") {
  const char* folder = std::getenv("HVD_TEST_PLUGINS");
  return {{"gpu_operations", "mpi"},
          {"cpu_operations", cpu},
          {"backend_path", folder == nullptr ? "" : folder}};
}

class CudaAware : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::getenv("HVD_TEST_PLUGINS") == nullptr)
      GTEST_SKIP() << "HVD_TEST_PLUGINS is not set; meson test sets it";
    fake_cuda::set_devices(kDevices);
  }
  ~CudaAware() override {
    ::unsetenv("HVD_TEST_MPI");
    EXPECT_EQ(fake_cuda::faults(), std::vector<std::string>());
  }
};

// The copies between devices and host since the last time.
size_t staged() {
  const std::vector<std::string> calls = fake_cuda::take_calls();
  return static_cast<size_t>(std::count_if(calls.begin(), calls.end(), [](const std::string& call) {
    return call.find("cuMemcpyDtoH") == 0 || call.find("cuMemcpyHtoD") == 0;
  }));
}

// Into itself and into another tensor, from every rank.
void check_broadcasts(const Job& job, Device& device, size_t count) {
  for (int root = 0; root < job.size(); ++root) {
    Floats sent(count);
    for (size_t i = 0; i < count; ++i)
      sent[i] = static_cast<float>(i % 1000) + static_cast<float>(root);
    const bool mine = job.rank() == root;
    void* in = mine ? device.filled(sent) : device.memory(count);
    EXPECT_EQ(
        Job::wait(submit(job, device, hvd_broadcast_async, in, count, in, count, root)).status,
        HVD_OK);
    EXPECT_EQ(device.read(in, count), sent);
    void* input = mine ? device.filled(sent) : nullptr;
    EXPECT_EQ(
        result_of(device, submit(job, device, hvd_broadcast_async, input, count, nullptr, 0, root)),
        sent);
  }
}

void check_gather_in_place(const Job& job, Device& device) {
  const auto n = static_cast<size_t>(job.size()), me = static_cast<size_t>(job.rank());
  constexpr size_t kEach = 700;
  auto* all = static_cast<float*>(device.memory(n * kEach));
  device.write(all + me * kEach, values(kEach, job.rank()));
  hvd_handle* handle =
      submit(job, device, hvd_allgatherv_async, all + me * kEach, kEach, all, n * kEach);
  EXPECT_EQ(Job::wait(handle).status, HVD_OK);
  Floats expected;
  for (int r = 0; r < job.size(); ++r)
    expected.insert(expected.end(), kEach, static_cast<float>(r + 1));
  EXPECT_EQ(device.read(all, n * kEach), expected);
}

TEST_F(CudaAware, WhatMovesBytesStaysOnTheDevices) {
  for (const int size : {2, 3, 4}) {
    const std::vector<std::string> lines = run_logged(
        size,
        [](Job& job) {
          Device device(job.rank());
          meet(job, device);
          job.barrier("met");
          if (job.rank() == 0) staged();
          job.barrier("begin");
          check_moves(job, device);
          check_gather_in_place(job, device);
          check_broadcasts(job, device, 1000);
          check_broadcasts(job, device, 40'001);
          job.barrier("end");
          if (job.rank() == 0) {
            EXPECT_EQ(staged(), 0u);
          }
          job.barrier("reductions");
          check_reductions(job, device);
          check_group(job, device);
        },
        settings());
    ASSERT_EQ(lines.size(), static_cast<size_t>(size));
    EXPECT_EQ(lines[1],
              "1: tensors of CUDA device 1 go through narrow, which is CUDA-aware; reductions "
              "through host memory");
  }
}

constexpr const char* kGoesDirect =
    " go through narrow, which is CUDA-aware; reductions through host memory";

size_t count_with(const std::vector<std::string>& lines, const std::string& text) {
  return static_cast<size_t>(
      std::count_if(lines.begin(), lines.end(),
                    [&](const std::string& line) { return line.find(text) != std::string::npos; }));
}

// An allgather of the members of a set of ranks 0 and 2, twice: the first one goes through host
// memory.
void gather_in_set(const Job& job, Device& device, hvd_process_set* set) {
  hvd_op_options options = device.options("of the set");
  options.set = set;
  for (int turn = 0; turn < 2; ++turn) {
    const int64_t length = 100;
    const hvd_tensor tensor = device.tensor(device.filled(values(100, job.rank())), &length);
    hvd_handle* handle = nullptr;
    ASSERT_EQ(hvd_allgatherv_async(job.get(), &tensor, nullptr, &options, &handle, nullptr),
              HVD_OK);
    Floats expected(100, 1.0F);
    expected.insert(expected.end(), 100, 3.0F);
    EXPECT_EQ(result_of(device, handle), expected);
  }
}

std::vector<std::string> run_with_set(const std::function<int(int rank)>& device_in_set) {
  return run_logged(
      3,
      [&](Job& job) {
        Device device(job.rank()), in_set(device_in_set(job.rank()));
        meet(job, device);
        const int32_t ranks[] = {0, 2};
        hvd_process_set* set = nullptr;
        ASSERT_EQ(hvd_process_set_create(job.get(), ranks, 2, &set, nullptr), HVD_OK);
        if (job.rank() != 1) gather_in_set(job, in_set, set);
        check_moves(job, device);
        EXPECT_EQ(hvd_process_set_destroy(set, nullptr), HVD_OK);
      },
      settings());
}

TEST_F(CudaAware, EachProcessSetMeetsByItself) {
  EXPECT_EQ(count_with(run_with_set([](int rank) { return rank; }), kGoesDirect), 5U);
}

TEST_F(CudaAware, OneDeviceOfAProcess) {
  const std::vector<std::string> lines =
      run_with_set([](int rank) { return rank == 2 ? 3 : rank; });
  EXPECT_EQ(count_with(lines, kGoesDirect), 3U);
  EXPECT_EQ(
      count_with(lines,
                 ": backend mpi is given memory of CUDA device 2 of this process, and of no other"),
      2U);
}

TEST_F(CudaAware, RanksThatWantOtherLibraries) {
  Lines lines("device");
  const std::string url = fresh_url();
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    ranks.emplace_back([&, rank] {
      Job::Settings mine = settings();
      mine.emplace_back("log_level", "info");
      if (rank == 1) mine.emplace_back("gpu_operations", "auto");
      Job job;
      ASSERT_EQ(job.open(url, rank, 2, mine, &Lines::take, &lines).status, HVD_OK);
      Device device(rank);
      meet(job, device);
      check_moves(job, device);
      EXPECT_EQ(job.close().status, HVD_OK);
    });
  }
  for (std::thread& rank : ranks) rank.join();
  EXPECT_EQ(count_with(lines.sorted(), " differ in gpu_operations, of which one is mpi"), 2U);
}

void expect_through_host(const std::string& why, const Job::Settings& chosen) {
  const std::vector<std::string> lines = run_logged(
      2,
      [](Job& job) {
        Device device(job.rank());
        meet(job, device);
        check_moves(job, device);
        check_reductions(job, device);
      },
      chosen);
  ASSERT_EQ(lines.size(), 2u);
  for (const std::string& line : lines) {
    EXPECT_NE(line.find(" go through host memory: rank 0"), std::string::npos) << line;
    EXPECT_NE(line.find(why), std::string::npos) << line;
  }
}

TEST_F(CudaAware, AnMpiThatIsNot) {
  ::setenv("HVD_TEST_MPI", "is not aware", 1);
  expect_through_host(": backend mpi: narrow is not CUDA-aware", settings());
}

TEST_F(CudaAware, MpiDoesNotMoveTheHostsMemory) {
  expect_through_host(": gpu_operations is mpi, cpu_operations is native: MPI has to move both",
                      settings("native"));
}

// On rank 0 alone: nobody can say whose fault it is. Rank 1's move is given up.
TEST_F(CudaAware, AFailureOfTheLibraryIsAnErrorOnAllRanks) {
  const std::string url = fresh_url();
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    ranks.emplace_back([&url, rank] {
      Job job;
      ASSERT_EQ(job.open(url, rank, 2, settings()).status, HVD_OK);
      Device device(rank);
      meet(job, device);
      EXPECT_EQ(job.barrier("met").status, HVD_OK);
      if (rank == 0) ::setenv("HVD_TEST_MPI", "fail on device 0", 1);
      EXPECT_EQ(job.barrier("set").status, HVD_OK);
      void* buffer = device.filled(values(100, rank));
      const Failure failure =
          Job::wait(submit(job, device, hvd_broadcast_async, buffer, 100, buffer, 100));
      EXPECT_NE(failure.status, HVD_OK);
      EXPECT_NE(failure.message.find("backend mpi: lost its way"), std::string::npos)
          << failure.message;
      EXPECT_EQ(failure.rank, -1) << failure.message;
      job.close();
    });
  }
  for (std::thread& rank : ranks) rank.join();
}

TEST_F(CudaAware, ATensorOfAnotherDeviceThanTheConnectedOne) {
  const std::vector<std::string> lines = run_logged(
      3,
      [](Job& job) {
        Device device(job.rank()), other(3);
        meet(job, device);
        check_moves(job, job.rank() == 0 ? other : device);
        check_broadcasts(job, job.rank() == 1 ? other : device, 30'000);
      },
      settings());
  EXPECT_EQ(count_with(lines, kGoesDirect), 3U);
}

}  // namespace
}  // namespace hvd::testing
