// SPDX-License-Identifier: Apache-2.0
// How connected devices come apart: in order and not, while other works are under way.
#include <atomic>
#include <functional>

#include "kernel_ranks.h"

namespace hvd::testing {
namespace {

// A stream that stands still until it is let go.
class Barrier {
 public:
  explicit Barrier(const Device& device) : stream_(device.stream()) {
    fake_cuda::launch(stream_, 0, [open = open_] { open->wait(false); });
  }
  ~Barrier() {
    *open_ = true;
    open_->notify_all();
  }
  Barrier(const Barrier&) = delete;
  Barrier& operator=(const Barrier&) = delete;

 private:
  fake_cuda::Stream stream_;
  std::shared_ptr<std::atomic<bool>> open_ = std::make_shared<std::atomic<bool>>(false);
};

class Endings : public Nccl {
 protected:
  // Rank 1 breaks down after `begin`, whose works wait on the other ranks' devices for kernels of
  // rank 1 that do not end. It is given two streams of the caller, and what `prepare` returns.
  static void run_broken(
      int size, const Job::Settings& settings,
      const std::function<hvd_process_set*(Job&, Device&)>& prepare,
      const std::function<void(Job&, Device&, Device&, hvd_process_set*)>& begin) {
    const std::string url = fresh_url();
    std::vector<std::thread> ranks;
    for (int rank = 0; rank < size; ++rank) {
      ranks.emplace_back([&, rank] {
        Job job;
        ASSERT_EQ(job.open(url, rank, size, settings).status, HVD_OK);
        Device device(rank), other(rank);
        meet(job, device);
        hvd_process_set* set = prepare(job, device);
        {
          std::optional<Barrier> late, others_late;
          if (rank == 1) {
            late.emplace(device);
            others_late.emplace(other);
          }
          begin(job, device, other, set);
          EXPECT_EQ(job.barrier("queued").status, HVD_OK);
          if (rank == 1) fake_nccl::set_async_error(1, kSystemError);
          Failure failure;
          while (failure.status == HVD_OK) failure = job.barrier("broken?");
          EXPECT_EQ(failure.rank, 1) << failure.message;
        }
        fake_cuda::synchronize(device.stream());
        fake_cuda::synchronize(other.stream());
        hvd_process_set_free(set);
        job.close();
      });
    }
    for (std::thread& rank : ranks) rank.join();
    fake_nccl::set_async_error(1, 0);
  }

  static void queue(Job& job, Device& device, const char* name, double prescale,
                    hvd_process_set* set) {
    const int64_t length = 10;
    const hvd_tensor tensor = device.tensor(device.memory(10), &length);
    hvd_op_options options = device.options(name);
    options.prescale = prescale;
    options.set = set;
    hvd_handle* handle = nullptr;
    ASSERT_EQ(hvd_allreduce_async(job.get(), &tensor, &tensor, &options, &handle, nullptr), HVD_OK);
    EXPECT_EQ(Job::wait(handle).status, HVD_OK);
  }
};

// The library frees memory as it aborts one communicator, which waits for kernels of all.
TEST_F(Endings, StreamsAreAbortedAtTheSameTime) {
  run_broken(
      2, {{"num_nccl_streams", "3"}}, [](Job&, Device&) { return nullptr; },
      [](Job& job, Device& device, Device&, hvd_process_set*) {
        for (const double prescale : {1.0, 2.0, 3.0}) queue(job, device, "t", prescale, nullptr);
      });
}

TEST_F(Endings, SetsAreAbortedAtTheSameTime) {
  const auto make_pair = [](Job& job, Device& device) {
    const int32_t pair[] = {0, 1};
    hvd_process_set* set = nullptr;
    EXPECT_EQ(hvd_process_set_create(job.get(), pair, 2, &set, nullptr), HVD_OK);
    if (job.rank() < 2) queue(job, device, "first", 1.0, set);
    return set;
  };
  run_broken(3, {}, make_pair, [](Job& job, Device& device, Device& other, hvd_process_set* set) {
    queue(job, device, "all", 1.0, nullptr);
    if (job.rank() < 2) queue(job, other, "two", 1.0, set);
  });
}

// What is queued arrives, however long it takes, and the others do not wait for it.
TEST_F(Endings, ASetIsDestroyedWhileItsWorksAreQueued) {
  run_ranks(3, [](Job& job) {
    Device device(job.rank());
    meet(job, device);
    const int32_t pair[] = {0, 1};
    hvd_process_set* set = nullptr;
    ASSERT_EQ(hvd_process_set_create(job.get(), pair, 2, &set, nullptr), HVD_OK);
    const bool member = job.rank() < 2;
    void* buffer = device.filled(values(10, job.rank()));
    const int64_t length = 10;
    const hvd_tensor tensor = device.tensor(buffer, &length);
    hvd_op_options options = device.options("pair");
    options.set = set;
    std::optional<Barrier> late;
    for (int round = 0; member && round < 2; ++round) {
      if (round == 1) late.emplace(device);
      hvd_handle* handle = nullptr;
      ASSERT_EQ(hvd_allreduce_async(job.get(), &tensor, &tensor, &options, &handle, nullptr),
                HVD_OK);
      EXPECT_EQ(Job::wait(handle).status, HVD_OK);
    }
    EXPECT_EQ(hvd_process_set_destroy(set, nullptr), HVD_OK);
    for (int round = 0; round < 3; ++round) EXPECT_EQ(job.barrier("meanwhile").status, HVD_OK);
    EXPECT_EQ(fake_nccl::comms(), 5u) << "the set's have gone before its works have ended";
    EXPECT_EQ(job.barrier("seen").status, HVD_OK);
    late.reset();
    if (member) {
      EXPECT_EQ(device.read(buffer, 10), Floats(10, 6.0f));
    }
    check_reductions(job, device);
  });
}

}  // namespace
}  // namespace hvd::testing
