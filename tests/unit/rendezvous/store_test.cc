// SPDX-License-Identifier: Apache-2.0
// What every store does, whatever it is made of. Ranks are threads; each opens the store for
// itself.
#include "rendezvous/store.h"

#include <gtest/gtest.h>

#include <set>
#include <thread>

#include "places.h"
#include "rendezvous/callback_store.h"
#include "rendezvous/entry.h"
#include "rendezvous/file_store.h"
#include "rendezvous/memory_store.h"
#include "rendezvous/open_store.h"
#include "rendezvous/prefix_store.h"
#include "unit/time_scale.h"

namespace hvd::rendezvous {
namespace {

// Opens the same store again and again, once per rank; rank 0 first.
class Place {
 public:
  virtual ~Place() = default;
  virtual std::shared_ptr<Store> open(int rank) = 0;
};

class UrlPlace : public Place {
 public:
  explicit UrlPlace(Url url) : url_(std::move(url)) {}
  std::shared_ptr<Store> open(int rank) override {
    auto store = open_store(url_, settings_of(rank, 64, now() + 10s));
    EXPECT_TRUE(store.ok()) << store.status().message();
    return store.ok() ? store.value() : nullptr;
  }

 private:
  Url url_;
};

class FilePlace : public UrlPlace {
 public:
  FilePlace() : FilePlace(std::make_unique<TemporaryDirectory>()) {}

 private:
  explicit FilePlace(std::unique_ptr<TemporaryDirectory> directory)
      : UrlPlace(FileUrl{directory->path() + "/store"}), directory_(std::move(directory)) {}
  std::unique_ptr<TemporaryDirectory> directory_;
};

class PrefixPlace : public Place {
 public:
  std::shared_ptr<Store> open(int) override {
    const auto shared = MemoryStore::named(name_);
    // Neighbours with the same keys must not be seen.
    const auto neighbour = std::make_shared<PrefixStore>(shared, "other/");
    for (const char* key : {"key", "counter", "present"})
      EXPECT_TRUE(neighbour->set(key, "1000").ok());
    return std::make_shared<PrefixStore>(shared, "this/");
  }

 private:
  const std::string name_ = fresh_name();
};

class CallbackPlace : public Place {
 public:
  std::shared_ptr<Store> open(int) override {
    const auto inner = MemoryStore::named(name_);
    return std::make_shared<CallbackStore>(StoreCallbacks{
        [inner](const std::string& key, const std::string& value) {
          return inner->set(key, value);
        },
        [inner](const std::string& key, Duration wait) {
          return inner->get(key, deadline_after(now(), wait));
        },
        [inner](const std::string& key, int64_t delta) { return inner->add(key, delta); },
        [inner](const std::string& key) { return inner->remove(key); }});
  }

 private:
  const std::string name_ = fresh_name();
};

std::unique_ptr<Place> make_place(const std::string& kind) {
  if (kind == "memory") return std::make_unique<UrlPlace>(MemoryUrl{fresh_name()});
  if (kind == "file") return std::make_unique<FilePlace>();
  if (kind == "tcp") return std::make_unique<UrlPlace>(fresh_tcp_url());
  if (kind == "unix") return std::make_unique<UrlPlace>(UnixUrl{fresh_name()});
  if (kind == "prefix") return std::make_unique<PrefixPlace>();
  return std::make_unique<CallbackPlace>();
}

class AnyStore : public ::testing::TestWithParam<const char*> {
 protected:
  AnyStore() : place_(make_place(GetParam())), store_(place_->open(0)) {}

  // What stands before every key at the bottom, where limits and messages come from.
  static std::string prefix() { return std::string(GetParam()) == "prefix" ? "this/" : ""; }

  // Runs `body(rank, store)` on ranks 0 to count - 1 at once.
  template <class Body>
  void on_ranks(int count, Body body) {
    std::vector<std::thread> threads;
    for (int rank = 1; rank < count; ++rank) {
      threads.emplace_back([this, rank, &body] {
        const std::shared_ptr<Store> mine = place_->open(rank);
        if (mine) body(rank, *mine);
      });
    }
    body(0, *store_);
    for (std::thread& thread : threads) thread.join();
  }

  std::unique_ptr<Place> place_;
  std::shared_ptr<Store> store_;
};

TEST_P(AnyStore, ReturnsWhatWasSet) {
  std::string binary("\0\xff line\n", 8);
  for (const std::string& value : {std::string("value"), std::string(), binary}) {
    ASSERT_TRUE(store_->set("key", value).ok());
    const Result<std::string> got = store_->get("key", now() + 5s);
    ASSERT_TRUE(got.ok()) << got.status().message();
    EXPECT_EQ(got.value(), value);
  }
}

TEST_P(AnyStore, AnAbsentKeyTimesOutAndIsNamed) {
  const Time start = now();
  const Result<std::string> got = store_->get("a key", start + 60ms);
  EXPECT_EQ(got.status().code(), Code::kTimeout);
  const std::string message = got.status().message();
  EXPECT_EQ(message.find("key \"" + prefix() + "a key\" did not appear in "), 0u) << message;
  EXPECT_TRUE(message.ends_with(" s")) << message;
  EXPECT_GE(now() - start, 59ms);
  EXPECT_LT(now() - start, hvd::testing::scaled(4s));
}

TEST_P(AnyStore, APastDeadlineStillFindsWhatIsThere) {
  ASSERT_TRUE(store_->set("present", "x").ok());
  EXPECT_TRUE(store_->get("present", now() - 1s).ok());
  EXPECT_EQ(store_->get("absent", now() - 1s).status().code(), Code::kTimeout);
}

TEST_P(AnyStore, RemovedKeysAreGoneAndRemovingAgainIsFine) {
  ASSERT_TRUE(store_->set("key", "x").ok());
  EXPECT_TRUE(store_->remove("key").ok());
  EXPECT_TRUE(store_->remove("key").ok());
  EXPECT_EQ(store_->get("key", now()).status().code(), Code::kTimeout);
}

TEST_P(AnyStore, CountersStartAtZeroAndAreReadableAsText) {
  EXPECT_EQ(store_->add("counter", 5).value(), 5);
  EXPECT_EQ(store_->add("counter", -7).value(), -2);
  EXPECT_EQ(store_->get("counter", now() + 5s).value(), "-2");
  ASSERT_TRUE(store_->remove("counter").ok());
  EXPECT_EQ(store_->add("counter", 1).value(), 1);
}

TEST_P(AnyStore, CountersRefuseTextAndOverflow) {
  ASSERT_TRUE(store_->set("key", "text").ok());
  EXPECT_EQ(store_->add("key", 1).status().message(),
            "store: key \"" + prefix() + "key\" is no counter");
  EXPECT_EQ(store_->get("key", now() + 5s).value(), "text");
  ASSERT_EQ(store_->add("counter", INT64_MAX).value(), INT64_MAX);
  EXPECT_EQ(store_->add("counter", 1).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(store_->add("counter", -1).value(), INT64_MAX - 1);
}

TEST_P(AnyStore, KeysOfAnyBytesStayApart) {
  std::vector<std::string> keys = {"a",   "A", "a/b",  "a%2fb", "../a", ".", "..",
                                   "k.a", "ä", "lock", "t.1.1", " ",    "\n"};
  const size_t longest = kMaxKey - prefix().size();
  keys.push_back(std::string(longest, 'x'));
  keys.push_back(std::string(longest - 1, 'x') + "y");
  keys.push_back(std::string(longest, '/'));
  keys.push_back(std::string(longest - 1, '/') + "%");
  for (const std::string& key : keys) ASSERT_TRUE(store_->set(key, "value of " + key).ok()) << key;
  EXPECT_EQ(store_->add("counter", 1).value(), 1);
  for (const std::string& key : keys)
    EXPECT_EQ(store_->get(key, now() + 5s).value(), "value of " + key) << key;
}

TEST_P(AnyStore, LimitsAreErrorsWithNumbers) {
  for (const std::string& key : {std::string(kMaxKey + 1, 'x'), std::string("a\0b", 3)}) {
    EXPECT_EQ(store_->set(key, "x").code(), Code::kInvalidArgument);
    EXPECT_EQ(store_->get(key, now()).status().code(), Code::kInvalidArgument);
    EXPECT_EQ(store_->add(key, 1).status().code(), Code::kInvalidArgument);
    EXPECT_EQ(store_->remove(key).code(), Code::kInvalidArgument);
  }
  const std::string largest(kMaxValue, 'v');
  ASSERT_TRUE(store_->set("key", largest).ok());
  EXPECT_EQ(store_->get("key", now() + 5s).value(), largest);
  const Status status = store_->set("key", largest + "v");
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_NE(status.message().find("1048577 bytes; allowed: at most 1048576"), std::string::npos)
      << status.message();
  EXPECT_EQ(store_->get("key", now() + 5s).value(), largest);
}

TEST_P(AnyStore, AWaitingRankSeesAKeySetLater) {
  on_ranks(2, [](int rank, Store& store) {
    if (rank == 0) {
      const Result<std::string> got = store.get("key", kNever);
      EXPECT_EQ(got.ok() ? got.value() : got.status().message(), "late");
    } else {
      std::this_thread::sleep_for(50ms);
      EXPECT_TRUE(store.set("key", "late").ok());
    }
  });
}

TEST_P(AnyStore, AWaitingRankSeesACounter) {
  on_ranks(2, [](int rank, Store& store) {
    if (rank == 0) {
      EXPECT_EQ(store.get("counter", now() + 10s).value(), "3");
    } else {
      std::this_thread::sleep_for(20ms);
      EXPECT_EQ(store.add("counter", 3).value(), 3);
    }
  });
}

TEST_P(AnyStore, EverybodyMeetsEverybody) {
  constexpr int kRanks = 8;
  on_ranks(kRanks, [](int rank, Store& store) {
    ASSERT_TRUE(store.set("rank/" + std::to_string(rank), "from " + std::to_string(rank)).ok());
    for (int other = 0; other < kRanks; ++other) {
      const Result<std::string> got = store.get("rank/" + std::to_string(other), now() + 20s);
      EXPECT_EQ(got.ok() ? got.value() : got.status().message(), "from " + std::to_string(other));
    }
    EXPECT_TRUE(store.add("done", 1).ok());
    while (store.get("done", now() + 20s).value() != std::to_string(kRanks))
      std::this_thread::sleep_for(1ms);
  });
}

TEST_P(AnyStore, AdditionsOfSeveralRanksAreAtomic) {
  constexpr int kRanks = 4, kRounds = 50;
  std::mutex mutex;
  std::set<int64_t> sums;
  on_ranks(kRanks, [&](int, Store& store) {
    for (int round = 0; round < kRounds; ++round) {
      const Result<int64_t> sum = store.add("counter", 1);
      ASSERT_TRUE(sum.ok()) << sum.status().message();
      std::lock_guard lock(mutex);
      EXPECT_TRUE(sums.insert(sum.value()).second) << sum.value() << " was given out twice";
    }
  });
  EXPECT_EQ(sums.size(), static_cast<size_t>(kRanks * kRounds));
  EXPECT_EQ(*sums.rbegin(), kRanks * kRounds);
}

TEST_P(AnyStore, ReadersNeverSeeAPartOfAValue) {
  on_ranks(2, [](int rank, Store& store) {
    if (rank == 1) {
      for (char c = 'a'; c <= 'z'; ++c) ASSERT_TRUE(store.set("key", std::string(100000, c)).ok());
      ASSERT_TRUE(store.set("end", "").ok());
      return;
    }
    while (!store.get("end", now()).ok()) {
      const Result<std::string> got = store.get("key", now() + 10s);
      ASSERT_TRUE(got.ok()) << got.status().message();
      ASSERT_EQ(got.value(), std::string(100000, got.value().at(0)));
    }
  });
}

TEST_P(AnyStore, RanksAreGivenByArrival) {
  std::mutex mutex;
  std::set<int> ranks;
  on_ranks(4, [&](int, Store& store) {
    const Result<int> rank = rank_by_arrival(store, 4);
    ASSERT_TRUE(rank.ok()) << rank.status().message();
    std::lock_guard lock(mutex);
    ranks.insert(rank.value());
  });
  EXPECT_EQ(ranks, (std::set<int>{0, 1, 2, 3}));
  const Result<int> late = rank_by_arrival(*store_, 4);
  EXPECT_EQ(late.status().code(), Code::kInvalidState);
  EXPECT_EQ(late.status().message(), "rendezvous: this is arrival 5 in a job of 4 ranks");
}

INSTANTIATE_TEST_SUITE_P(All, AnyStore,
                         ::testing::Values("memory", "file", "tcp", "unix", "prefix", "callback"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace hvd::rendezvous
