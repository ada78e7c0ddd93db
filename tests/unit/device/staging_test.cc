// SPDX-License-Identifier: Apache-2.0
// Collectives of tensors on devices: right although the kernels before and the copies are late and
// nobody waits for them on the host, in the order of the caller's stream.
#include <algorithm>

#include "collective_checks.h"

namespace hvd::testing {
namespace {

TEST(Staging, EveryCollective) {
  for (const int size : {1, 2, 3}) {
    run_ranks(size, [](Job& job) {
      Device device(job.rank() % 2);
      check_reductions(job, device);
      check_moves(job, device);
      check_group(job, device);
    });
  }
  EXPECT_EQ(fake_cuda::faults(), std::vector<std::string>());
}

TEST(Staging, BetweenHosts) {
  run_hosts(2, 2, [](Job& job) {
    Device device(0);
    check_reductions(job, device);
    check_moves(job, device);
  });
  EXPECT_EQ(fake_cuda::faults(), std::vector<std::string>());
}

// Fused, on two streams of two devices, mixed with tensors of the CPU, and some ranks long before
// others.
TEST(Staging, ManyAtOnce) {
  constexpr int kOperations = 40;
  run_ranks(2, [](Job& job) {
    Device one(0), other(1);
    for (int round = 0; round < 3; ++round) {
      std::vector<hvd_handle*> handles;
      std::vector<void*> buffers;
      std::vector<Floats> host(kOperations, values(300, job.rank()));
      const int64_t length = 300;
      for (int i = 0; i < kOperations; ++i) {
        Device& device = i % 2 == 0 ? one : other;
        buffers.push_back(device.filled(values(300, job.rank()), i == 5 ? 20'000 : 10));
        const std::string name = "many." + std::to_string(i);
        const hvd_tensor tensor = device.tensor(buffers.back(), &length);
        const hvd_op_options options = device.options(name.c_str());
        ASSERT_EQ(hvd_allreduce_async(job.get(), &tensor, &tensor, &options,
                                      &handles.emplace_back(), nullptr),
                  HVD_OK);
        const std::string beside = "host." + std::to_string(i);
        ASSERT_EQ(job.start_sum(host[static_cast<size_t>(i)], named(beside.c_str()),
                                &handles.emplace_back())
                      .status,
                  HVD_OK);
      }
      for (hvd_handle* handle : handles) EXPECT_EQ(Job::wait(handle).status, HVD_OK);
      for (int i = 0; i < kOperations; ++i) {
        EXPECT_EQ((i % 2 == 0 ? one : other).read(buffers[static_cast<size_t>(i)], 300),
                  Floats(300, 3.0f));
        EXPECT_EQ(host[static_cast<size_t>(i)], Floats(300, 3.0f));
      }
    }
  });
  EXPECT_EQ(fake_cuda::faults(), std::vector<std::string>());
}

TEST(Staging, OneHasJoined) {
  run_ranks(2, [](Job& job) {
    Device device(0);
    hvd_handle* joined = nullptr;
    if (job.rank() == 0) {
      const Floats expected(1000, 1.0f);
      EXPECT_EQ(result_of(device, submit(job, device, hvd_allreduce_async,
                                         device.filled(values(1000, 0)), 1000)),
                expected);
    }
    ASSERT_EQ(hvd_join_async(job.get(), nullptr, &joined, nullptr), HVD_OK);
    EXPECT_EQ(Job::wait(joined).status, HVD_OK);
  });
}

// The whole of what is asked of the driver, in its order.
TEST(Staging, AsksTheDriverForNoMore) {
  run_ranks(1, [](Job& job) {
    fake_cuda::take_calls();
    Device device(0);
    void* buffer = device.filled(values(100, 0), 0);
    const auto once = [&] {
      EXPECT_EQ(
          Job::wait(submit(job, device, hvd_allreduce_async, buffer, 100, buffer, 100)).status,
          HVD_OK);
    };
    once();
    fake_cuda::synchronize(device.stream());
    std::vector<std::string> calls = fake_cuda::take_calls();
    const auto made = [&](const std::string& call) {
      return std::count(calls.begin(), calls.end(), call);
    };
    EXPECT_EQ(made("cuInit"), 1);
    EXPECT_EQ(made("cuMemHostAlloc"), 1);
    EXPECT_EQ(made("cuEventCreate"), 3);
    // An operation may be submitted before the engine has put away what the one before it used:
    // then there are two of each.
    int more = 0;
    for (bool made_more = true; made_more; more += made_more) {
      once();
      fake_cuda::synchronize(device.stream());
      calls = fake_cuda::take_calls();
      made_more = made("cuMemHostAlloc") != 0 || made("cuEventCreate") != 0;
    }
    EXPECT_LE(more, 1);
    const std::vector<std::string>& again = calls;
    ASSERT_GE(again.size(), 1u);
    const std::string caller = again[0].substr(again[0].find(' ') + 1);
    ASSERT_EQ(caller.substr(0, 6), "stream");
    // Of our two streams the first copies to the host.
    const int number = std::stoi(caller.substr(6));
    const std::string down = "stream" + std::to_string(number + 1),
                      up = "stream" + std::to_string(number + 2);
    EXPECT_EQ(again, (std::vector<std::string>{
                         "cuEventRecord " + caller,      // what the inputs wait for
                         "cuStreamWaitEvent " + down,    //
                         "cuMemcpyDtoHAsync " + down,    //
                         "cuEventRecord " + down,        //
                         "cuLaunchHostFunc " + down,     // rings
                         "cuStreamWaitEvent " + up,      //
                         "cuMemcpyHtoDAsync " + up,      //
                         "cuEventRecord " + up,          //
                         "cuStreamWaitEvent " + caller,  // what comes there sees the result
                     }));
  });
}

TEST(Staging, NobodyPollsForALateKernel) {
  run_ranks(2, [](Job& job) {
    Device device(0);
    void* warm = device.filled(values(100, job.rank()));
    EXPECT_EQ(Job::wait(submit(job, device, hvd_allreduce_async, warm, 100, warm, 100)).status,
              HVD_OK);
    const double before = metric_of(job, "engine_wakeups");
    void* buffer = device.filled(values(100, job.rank()), 1'000'000);
    EXPECT_EQ(Job::wait(submit(job, device, hvd_allreduce_async, buffer, 100, buffer, 100)).status,
              HVD_OK);
    // The clock ticks ten times a second while operations are in flight.
    EXPECT_LT(metric_of(job, "engine_wakeups") - before, 100);
    EXPECT_EQ(device.read(buffer, 100), Floats(100, 3.0f));
  });
}

// Sizes that come once only: what is kept of them stays within what was in use at once.
TEST(Staging, MemoryOfManySizesDoesNotPileUp) {
  run_ranks(1, [](Job& job) {
    Device device(0);
    constexpr size_t kLargest = 40;
    const size_t before = fake_cuda::locked_bytes();
    for (size_t megabytes = 1; megabytes <= kLargest; ++megabytes) {
      const size_t elements = megabytes << 18;
      void* buffer = device.memory(elements);
      EXPECT_EQ(
          Job::wait(submit(job, device, hvd_allreduce_async, buffer, elements, buffer, elements))
              .status,
          HVD_OK);
      fake_cuda::synchronize(device.stream());
    }
    EXPECT_LE(fake_cuda::locked_bytes() - before, (3 * kLargest) << 20);
  });
}

// The copy that the kernel holds up comes when the job is gone: its memory is there yet.
TEST(Staging, AJobThatEndsBeforeItsKernel) {
  std::atomic<bool> kernel_may_end{false};
  Device device(0);
  Job job;
  ASSERT_EQ(job.open(fresh_url(), 0, 1).status, HVD_OK);
  void* buffer = device.filled(values(100, 0));
  fake_cuda::launch(device.stream(), 0, [&] {
    while (!kernel_may_end) std::this_thread::yield();
  });
  hvd_handle* handle = submit(job, device, hvd_allreduce_async, buffer, 100, buffer, 100);
  hvd_error error = HVD_ERROR_INIT;
  EXPECT_EQ(hvd_shutdown(job.get(), 0, &error), HVD_OK) << error.message;
  EXPECT_EQ(Job::wait(handle).status, HVD_ERR_SHUT_DOWN);
  job.close();
  kernel_may_end = true;
  EXPECT_EQ(device.read(buffer, 100), values(100, 0));
  fake_cuda::synchronize_all();
  EXPECT_EQ(fake_cuda::faults(), std::vector<std::string>());
}

}  // namespace
}  // namespace hvd::testing
