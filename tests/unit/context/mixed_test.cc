// SPDX-License-Identifier: Apache-2.0
// Many operations at once: from several threads, in different orders, without names, with more
// names than the cache holds.
#include <poll.h>

#include <algorithm>
#include <random>

#include "unit/context/ranks.h"

namespace hvd::testing {
namespace {

struct Pending {
  std::vector<float> data;
  hvd_handle* handle = nullptr;
};

void expect_all(std::vector<Pending>& all, int size) {
  for (size_t i = 0; i < all.size(); ++i) {
    const Failure failure = Job::wait(all[i].handle);
    ASSERT_EQ(failure.status, HVD_OK) << failure.message;
    ASSERT_EQ(all[i].data, std::vector<float>(all[i].data.size(),
                                              static_cast<float>(i * static_cast<size_t>(size))))
        << i;
  }
}

TEST(Mixed, DifferentOrdersOnDifferentRanks) {
  run_ranks(4, [](Job& job) {
    for (int round = 0; round < 5; ++round) {
      std::vector<Pending> all(100);
      std::vector<size_t> order(all.size());
      for (size_t i = 0; i < order.size(); ++i) order[i] = i;
      std::shuffle(order.begin(), order.end(),
                   std::mt19937(static_cast<unsigned>(job.rank() + 10 * round)));
      for (const size_t i : order) {
        all[i].data.assign(1 + i * 7, static_cast<float>(i));
        const std::string name = "n" + std::to_string(i);
        hvd_op_options options = named(name.c_str());
        options.priority = static_cast<int32_t>(i % 5);
        ASSERT_EQ(job.start_sum(all[i].data, options, &all[i].handle).status, HVD_OK);
      }
      expect_all(all, job.size());
    }
  });
}

TEST(Mixed, ThreeHundredWithoutNames) {
  run_ranks(3, [](Job& job) {
    std::vector<Pending> all(300);
    for (size_t i = 0; i < all.size(); ++i) {
      all[i].data.assign(3, static_cast<float>(i));
      ASSERT_EQ(job.start_sum(all[i].data, named(nullptr), &all[i].handle).status, HVD_OK);
    }
    expect_all(all, job.size());
  });
}

TEST(Mixed, MoreNamesThanTheCacheHolds) {
  run_ranks(
      3,
      [](Job& job) {
        for (int round = 0; round < 2; ++round) {
          for (int i = 0; i < 2000; ++i) {
            std::vector<float> data(2, static_cast<float>(i));
            ASSERT_EQ(job.sum(data, ("c" + std::to_string(i)).c_str()).status, HVD_OK);
            ASSERT_EQ(data[1], static_cast<float>(i * job.size()));
          }
        }
      },
      [](int) { return Job::Settings{{"cache_capacity", "8"}}; });
}

TEST(Mixed, TwoSetsTwoThreadsEachForTwoSeconds) {
  run_ranks(4, [](Job& job) {
    const int32_t even[] = {0, 2}, odd[] = {1, 3};
    hvd_process_set* sets[2] = {};
    ASSERT_EQ(hvd_process_set_create(job.get(), even, 2, &sets[0], nullptr), HVD_OK);
    ASSERT_EQ(hvd_process_set_create(job.get(), odd, 2, &sets[1], nullptr), HVD_OK);
    std::vector<std::thread> threads;
    for (int t = 0; t < 2; ++t) {
      threads.emplace_back([&, t] {
        std::mt19937 random(static_cast<unsigned>(t));  // the same on all ranks
        // The first element carries a vote: all go on while all want to.
        for (bool more = true; more;) {
          static const auto start = std::chrono::steady_clock::now();
          const bool own = t == 1 && random() % 2 == 0;
          hvd_process_set* set = own ? sets[job.rank() % 2] : nullptr;
          const float size = own ? 2.0f : 4.0f;
          std::vector<float> data(1 + random() % 3000, 1.0f);
          const bool mine = std::chrono::steady_clock::now() - start < std::chrono::seconds(2);
          ASSERT_EQ(job.sum(data, ("t" + std::to_string(t)).c_str(), set).status, HVD_OK);
          ASSERT_EQ(data, std::vector<float>(data.size(), size));
          std::vector<float> vote(1, mine ? 0.0f : 1.0f);
          ASSERT_EQ(job.sum(vote, ("vote" + std::to_string(t)).c_str()).status, HVD_OK);
          more = vote[0] == 0.0f;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    hvd_process_set_free(sets[0]);
    hvd_process_set_free(sets[1]);
  });
}

TEST(Mixed, CallbacksComeOnce) {
  run_ranks(2, [](Job& job) {
    std::atomic<int> calls{0};
    for (int i = 0; i < 200; ++i) {
      std::vector<float> data(4, 1.0f);
      hvd_handle* handle = nullptr;
      ASSERT_EQ(job.start_sum(data, named("cb"), &handle).status, HVD_OK);
      const auto count = [](void* counter, hvd_handle*, hvd_status status) {
        EXPECT_EQ(status, HVD_OK);
        ++*static_cast<std::atomic<int>*>(counter);
      };
      ASSERT_EQ(hvd_handle_then(handle, count, &calls, nullptr), HVD_OK);
      ASSERT_EQ(Job::wait(handle).status, HVD_OK);
    }
    for (int wait = 0; wait < 5000 && calls < 200; ++wait) ::usleep(1000);
    EXPECT_EQ(calls, 200);
  });
}

// The callback may be over, and the handle gone, before hvd_handle_then returns.
TEST(Mixed, CallbacksMayFreeTheirHandle) {
  run_ranks(2, [](Job& job) {
    std::atomic<int> calls{0};
    std::vector<float> data(4, 1.0f);
    for (int i = 1; i <= 2000; ++i) {
      hvd_handle* handle = nullptr;
      ASSERT_EQ(job.start_sum(data, named("cb"), &handle).status, HVD_OK);
      const auto free_it = [](void* counter, hvd_handle* ended, hvd_status) {
        hvd_handle_free(ended);
        ++*static_cast<std::atomic<int>*>(counter);
      };
      if (i % 4 == 0) hvd_wait(handle, -1, nullptr);  // so that it has ended already
      ASSERT_EQ(hvd_handle_then(handle, free_it, &calls, nullptr), HVD_OK);
      while (calls < i) std::this_thread::yield();
    }
  });
}

TEST(Mixed, CompletionsDescriptor) {
  run_ranks(2, [](Job& job) {
    int32_t fd = -1;
    ASSERT_EQ(hvd_completions_fd(job.get(), &fd, nullptr), HVD_OK);
    std::vector<Pending> all(20);
    for (size_t i = 0; i < all.size(); ++i) {
      all[i].data.assign(5, static_cast<float>(i));
      ASSERT_EQ(job.start_sum(all[i].data, named(("q" + std::to_string(i)).c_str()), &all[i].handle)
                    .status,
                HVD_OK);
    }
    for (size_t popped = 0; popped < all.size();) {
      pollfd entry{fd, POLLIN, 0};
      ASSERT_EQ(::poll(&entry, 1, 20000), 1);
      while (hvd_handle* handle = hvd_completions_pop(job.get())) {
        ++popped;
        EXPECT_EQ(hvd_test(handle, nullptr), HVD_OK);
        hvd_handle_free(handle);
      }
    }
    expect_all(all, job.size());
  });
}

}  // namespace
}  // namespace hvd::testing
