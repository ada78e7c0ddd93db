// SPDX-License-Identifier: Apache-2.0
// Communicators that are split from the first one: for more streams, and for allreduce by hosts.
#include "kernel_ranks.h"

namespace hvd::testing {
namespace {

// Of calls such as "ncclAllReduce float32 10 sum stream3".
std::set<std::string> streams_of(const std::vector<std::string>& calls, const std::string& symbol) {
  std::set<std::string> streams;
  for (const std::string& call : calls) {
    if (call.starts_with(symbol)) streams.insert(call.substr(call.rfind(' ') + 1));
  }
  return streams;
}

class Splits : public Nccl {
 protected:
  // Everything with and without kernels, by ranks of `hosts` hosts.
  static void run(int hosts, int per_host, const Job::Settings& more,
                  const std::function<void(Job&)>& body) {
    for (const char* kernels : {kKernelFile, "none"}) {
      fake_nccl::set_enqueue_delay(kernels == kKernelFile ? 3 : 0);
      run_ranks(hosts * per_host, body, [&](int rank) {
        Job::Settings settings = more;
        settings.emplace_back("cuda_kernels", kernels);
        settings.emplace_back("hostname", "host" + std::to_string(rank / per_host));
        return settings;
      });
    }
  }
};

TEST_F(Splits, WorksTakeTurnsOnStreams) {
  run(1, 3, {{"num_nccl_streams", "2"}}, [](Job& job) {
    Device device(job.rank());
    meet(job, device);
    const std::vector<std::string> connecting = fake_nccl::take_calls(device.id());
    EXPECT_EQ(count_of(connecting, "ncclCommSplit 0"), 1u);
    check_reductions(job, device);
    check_moves(job, device);
    check_group(job, device);
    const std::vector<std::string> calls = fake_nccl::take_calls(device.id());
    EXPECT_EQ(streams_of(calls, "ncclAllReduce").size(), 2u);
  });
}

// Several in flight, each behind a late kernel of its own.
TEST_F(Splits, StreamsAtTheSameTime) {
  run(1, 2, {{"num_nccl_streams", "3"}}, [](Job& job) {
    Device device(job.rank());
    meet(job, device);
    constexpr size_t kCount = 1000;
    std::vector<hvd_handle*> handles;
    std::vector<void*> buffers;
    std::vector<std::string> names;
    const int64_t length = kCount;
    for (int i = 0; i < 12; ++i) {
      buffers.push_back(device.filled(Floats(kCount, static_cast<float>(i + job.rank()))));
      const hvd_tensor tensor = device.tensor(buffers.back(), &length);
      names.push_back("t" + std::to_string(i));
      hvd_op_options options = device.options(names.back().c_str());
      options.prescale = i;  // not two in one group
      handles.push_back(nullptr);
      ASSERT_EQ(
          hvd_allreduce_async(job.get(), &tensor, &tensor, &options, &handles.back(), nullptr),
          HVD_OK);
    }
    for (hvd_handle* handle : handles) EXPECT_EQ(Job::wait(handle).status, HVD_OK);
    for (int i = 0; i < 12; ++i)
      EXPECT_EQ(device.read(buffers[static_cast<size_t>(i)], kCount),
                Floats(kCount, static_cast<float>(i * (2 * i + 1))))
          << i;
  });
}

TEST_F(Splits, AllreduceByHosts) {
  run(2, 2, {{"torus_allreduce", "1"}, {"num_nccl_streams", "2"}}, [](Job& job) {
    Device device(job.rank());
    meet(job, device);
    const std::vector<std::string> connecting = fake_nccl::take_calls(device.id());
    EXPECT_EQ(count_of(connecting, "ncclCommSplit"), 5u)
        << "for each stream one of the host and one across, and the second stream's";
    check_reductions(job, device);
    check_moves(job, device);
    check_group(job, device);
    fake_nccl::take_calls(device.id());
    void* odd = device.filled(values(7, job.rank()));
    hvd_op_options options = device.options("odd");
    options.reduce_op = HVD_AVERAGE;
    const int64_t length = 7;
    const hvd_tensor tensor = device.tensor(odd, &length);
    hvd_handle* handle = nullptr;
    ASSERT_EQ(hvd_allreduce_async(job.get(), &tensor, &tensor, &options, &handle, nullptr), HVD_OK);
    EXPECT_EQ(Job::wait(handle).status, HVD_OK);
    EXPECT_EQ(device.read(odd, 7), Floats(7, 2.5f));
    std::vector<std::string> calls;
    for (const std::string& call : fake_nccl::take_calls(device.id())) {
      const std::string symbol = call.substr(0, call.find(' '));
      if (symbol != "ncclGroupStart" && symbol != "ncclGroupEnd" &&
          symbol.find("RedOp") == std::string::npos)
        calls.push_back(call.substr(0, call.rfind(' ')));
    }
    EXPECT_EQ(calls,
              (std::vector<std::string>{"ncclReduceScatter float32 3 sum x 0.250000",
                                        "ncclAllReduce float32 3 sum", "ncclAllGather uint8 12",
                                        "ncclAllReduce float32 1 sum x 0.250000"}));
  });
}

// As with one host, or one rank on each: what can not be divided is not.
TEST_F(Splits, OneRankOnEachHost) {
  run(2, 1, {{"torus_allreduce", "1"}}, [](Job& job) {
    Device device(job.rank());
    meet(job, device);
    EXPECT_EQ(count_of(fake_nccl::take_calls(device.id()), "ncclCommSplit"), 0u);
    check_reductions(job, device);
  });
}

// Less than all wanted, as the member that wants least.
TEST_F(Splits, MembersWantDifferentNumbers) {
  run_ranks(
      2,
      [](Job& job) {
        Device device(job.rank());
        meet(job, device);
        EXPECT_EQ(count_of(fake_nccl::take_calls(device.id()), "ncclCommSplit"), 1u);
        check_group(job, device);
      },
      [](int rank) { return Job::Settings{{"num_nccl_streams", rank == 0 ? "4" : "2"}}; });
}

TEST_F(Splits, OneRankCanNotSplit) {
  fake_nccl::fail("ncclCommSplit", 2, 1);
  const std::vector<std::string> said =
      run_logged(2,
                 [](Job& job) {
                   Device device(job.rank());
                   meet(job, device);
                   fake_nccl::take_calls(device.id());
                   check_group(job, device);
                   EXPECT_EQ(count_of(fake_nccl::take_calls(device.id()), "ncclAllReduce"), 0u);
                 },
                 {{"num_nccl_streams", "2"}, {"start_timeout", "3"}});
  ASSERT_EQ(said.size(), 2u);
  for (const std::string& line : said)
    EXPECT_NE(line.find("host memory: rank "), std::string::npos) << line;
}

// Each tensor is given to the library where it is.
TEST_F(Splits, NothingIsPacked) {
  run(1, 2, {{"batch_d2d_memcopies", "0"}}, [](Job& job) {
    Device device(job.rank());
    meet(job, device);
    fake_nccl::take_calls(device.id());
    check_group(job, device);
    EXPECT_EQ(count_of(fake_nccl::take_calls(device.id()), "ncclAllReduce"), 2u);
  });
}

TEST_F(Splits, OneMemberPacksNothing) {
  run_ranks(
      2,
      [](Job& job) {
        Device device(job.rank());
        meet(job, device);
        fake_nccl::take_calls(device.id());
        check_group(job, device);
        EXPECT_EQ(count_of(fake_nccl::take_calls(device.id()), "ncclAllReduce"), 2u);
      },
      [](int rank) {
        return Job::Settings{{"cuda_kernels", kKernelFile},
                             {"batch_d2d_memcopies", rank == 0 ? "1" : "0"}};
      });
}

}  // namespace
}  // namespace hvd::testing
