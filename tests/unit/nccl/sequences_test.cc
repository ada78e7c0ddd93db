// SPDX-License-Identifier: Apache-2.0
// The whole of what every operation asks of driver and library, in its order, once the members have
// met.
#include <functional>

#include "kernel_ranks.h"

namespace hvd::testing {
namespace {

using Calls = std::vector<std::string>;

class Sequences : public Nccl {
 public:
  // Starts it on a tensor that is there, and waits for its handle.
  using Start = std::function<void(const Job&, Device&, const hvd_op_options&)>;

  // Rank 1 of two asks for so many launches of our kernels, between the marks of its inputs and of
  // its results, and for these groups of calls on the same stream.
  static void check(const std::string& kernels, const Start& start, size_t launches,
                    const std::vector<Calls>& groups) {
    Calls driver{"cuEventRecord caller", "cuStreamWaitEvent ours"}, library;
    driver.insert(driver.end(), launches, "cuLaunchKernel ours");
    driver.insert(driver.end(), {"cuEventRecord ours", "cuStreamWaitEvent caller"});
    for (const Calls& group : groups) {
      library.push_back("ncclGroupStart");
      for (const std::string& call : group) library.push_back(call + " ours");
      library.push_back("ncclGroupEnd");
    }
    run_ranks(
        2,
        [&](Job& job) {
          Device device(job.rank());
          meet(job, device);
          for (int warm = 0; warm < 3; ++warm) once(job, device, start);
          EXPECT_EQ(job.barrier("warm").status, HVD_OK);
          if (job.rank() == 1) fake_cuda::take_calls();
          fake_nccl::take_calls(job.rank());
          EXPECT_EQ(job.barrier("begin").status, HVD_OK);  // it asks for nothing
          once(job, device, start);
          if (job.rank() == 1) compare(device, driver, library);
          EXPECT_EQ(job.barrier("done").status, HVD_OK);
        },
        [&](int) { return Job::Settings{{"cuda_kernels", kernels}}; });
  }

 private:
  static void compare(const Device& device, const Calls& driver, const Calls& library) {
    const std::string caller = fake_cuda::name_of(device.stream());
    std::string ours;
    Calls asked_library;
    for (std::string call : fake_nccl::take_calls(device.id())) {
      const size_t at = call.rfind(" stream");
      if (at != std::string::npos) {
        ours = call.substr(at + 1);
        call = call.substr(0, at) + " ours";
      }
      asked_library.push_back(call);
    }
    Calls asked_driver;
    for (const std::string& call : fake_cuda::take_calls()) {
      const std::string symbol = call.substr(0, call.find(' ')),
                        stream = call.substr(call.rfind(' ') + 1);
      if (stream == ours || stream == caller)
        asked_driver.push_back(symbol + (stream == ours ? " ours" : " caller"));
      // Of any rank. An event is made where the one before is still in use, which is a matter of
      // time.
      if (!stream.starts_with("stream") && symbol != "cuEventCreate") asked_driver.push_back(call);
    }
    EXPECT_EQ(asked_driver, driver);
    EXPECT_EQ(asked_library, library);
  }

  static void once(const Job& job, Device& device, const Start& start) {
    fake_cuda::synchronize(device.stream());
    start(job, device, device.options("op"));
    fake_cuda::synchronize(device.stream());
  }
};

// Of `count` floats and with a result of `out_count`.
Sequences::Start moving(
    Submit submit, std::function<int64_t(int rank)> count,
    std::function<int64_t(int rank)> out_count,
    std::function<void(hvd_op_options&)> set = [](hvd_op_options&) {}) {
  return [=](const Job& job, Device& device, hvd_op_options options) {
    set(options);
    const int64_t lengths[] = {count(job.rank()), out_count(job.rank())};
    const hvd_tensor in =
        device.tensor(device.memory(static_cast<size_t>(lengths[0])), &lengths[0]);
    const hvd_tensor out =
        device.tensor(device.memory(static_cast<size_t>(lengths[1])), &lengths[1]);
    hvd_handle* handle = nullptr;
    hvd_error error = HVD_ERROR_INIT;
    ASSERT_EQ(submit(job.get(), &in, &out, &options, &handle, &error), HVD_OK) << error.message;
    EXPECT_EQ(Job::wait(handle).status, HVD_OK);
  };
}

Sequences::Start group_of_two() {
  return [](const Job& job, Device& device, hvd_op_options options) {
    const int64_t lengths[] = {7, 20'000};
    hvd_tensor tensors[2];
    for (int i = 0; i < 2; ++i)
      tensors[i] = device.tensor(device.memory(static_cast<size_t>(lengths[i])), &lengths[i]);
    hvd_handle* handle = nullptr;
    ASSERT_EQ(
        hvd_grouped_allreduce_async(job.get(), tensors, tensors, 2, &options, &handle, nullptr),
        HVD_OK);
    EXPECT_EQ(Job::wait(handle).status, HVD_OK);
  };
}

hvd_status even_alltoall(hvd_context* context, const hvd_tensor* in, const hvd_tensor* out,
                         const hvd_op_options* options, hvd_handle** handle, hvd_error* error) {
  return hvd_alltoallv_async(context, in, nullptr, out, options, handle, error);
}

std::function<int64_t(int)> all(int64_t count) {
  return [count](int) { return count; };
}
std::function<void(hvd_op_options&)> with(hvd_reduce_op op) {
  return [op](hvd_op_options& options) { options.reduce_op = op; };
}

TEST_F(Sequences, Allreduce) {
  const auto one = [](hvd_reduce_op op) {
    return moving(hvd_allreduce_async, all(10), all(10), with(op));
  };
  check("none", one(HVD_SUM), 0, {{"ncclAllReduce float32 10 sum"}});
  check("none", one(HVD_MIN), 0, {{"ncclAllReduce float32 10 min"}});
  check("none", one(HVD_MAX), 0, {{"ncclAllReduce float32 10 max"}});
  check("none", one(HVD_PRODUCT), 0, {{"ncclAllReduce float32 10 product"}});
  check("none", one(HVD_AVERAGE), 0, {{"ncclAllReduce float32 10 sum x 0.500000"}});
  check("none", group_of_two(), 0,
        {{"ncclAllReduce float32 7 sum", "ncclAllReduce float32 20000 sum"}});
}

TEST_F(Sequences, Moves) {
  const auto uneven = [](int rank) { return 10 + rank; };
  check("none", moving(hvd_allgatherv_async, all(10), all(20)), 0, {{"ncclAllGather uint8 40"}});
  check("none", moving(hvd_allgatherv_async, uneven, all(21)), 0,
        {{"ncclBroadcast uint8 40 rank 0", "ncclBroadcast uint8 44 rank 1"}});
  check("none", moving(hvd_broadcast_async, all(10), all(10)), 0,
        {{"ncclBroadcast uint8 40 rank 0"}});
  check("none", moving(even_alltoall, all(10), all(10)), 0,
        {{"ncclSend uint8 20 rank 0", "ncclRecv uint8 20 rank 0", "ncclSend uint8 20 rank 1",
          "ncclRecv uint8 20 rank 1"}});
}

TEST_F(Sequences, Reducescatter) {
  const auto uneven = [](int rank) { return 6 - rank; };
  check("none", moving(hvd_reducescatter_async, all(10), all(5)), 0,
        {{"ncclReduceScatter float32 5 sum"}});
  check("none", moving(hvd_reducescatter_async, all(11), uneven), 0,
        {{"ncclReduce float32 6 sum rank 0", "ncclReduce float32 5 sum rank 1"}});
}

TEST_F(Sequences, WithKernels) {
  const auto one = [](std::function<void(hvd_op_options&)> set) {
    return moving(hvd_allreduce_async, all(10), all(10), set);
  };
  const auto doubled = [](hvd_op_options& options) {
    options.reduce_op = HVD_MAX;
    options.prescale = 2;
  };
  check(kKernelFile, one(with(HVD_SUM)), 0, {{"ncclAllReduce float32 10 sum"}});
  check(kKernelFile, one(doubled), 1, {{"ncclAllReduce float32 10 max"}});
  // with room for 16 bytes at a time
  check(kKernelFile, group_of_two(), 2, {{"ncclAllReduce float32 20008 sum"}});
  check(kKernelFile, one(with(HVD_ADASUM)), 8,
        {{"ncclSend uint8 32 rank 0", "ncclRecv uint8 32 rank 0", "ncclSend uint8 32 rank 1",
          "ncclRecv uint8 32 rank 1"},
         {"ncclAllReduce float64 4 sum"},
         {"ncclAllGather uint8 32"}});
}

}  // namespace
}  // namespace hvd::testing
