// SPDX-License-Identifier: Apache-2.0
// Members that open a set tell each other: data, failures, and nothing when one does not come.
#include "backend/plugin/exchange.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <numeric>
#include <thread>

#include "unit/time_scale.h"

namespace hvd::backend::plugin {
namespace {

// Where the members' allgathers meet.
struct Exchanges {
  explicit Exchanges(size_t members) : given(members), rounds(members) {}
  // copies: a member that gives up leaves with what it gave
  std::vector<std::vector<std::byte>> given;
  std::vector<std::atomic<int>> rounds;
};

// A native comm that knows allgather only.
class ExchangeComm final : public Comm {
 public:
  ExchangeComm(Exchanges& table, size_t me) : table_(table), me_(me) {}
  int score(const Work&) const override { return 1; }
  Status start(const Work& work) override {
    mine_ = work.items[0];
    copied_ = false;
    const auto* in = static_cast<const std::byte*>(mine_.in);
    table_.given[me_].assign(in, in + mine_.parts[me_]);
    ++table_.rounds[me_];
    return {};
  }
  Progress poll() override {
    if (!all_at(table_.rounds[me_])) return Progress::kWaiting;
    if (!copied_) {
      auto* out = static_cast<std::byte*>(mine_.out);
      for (size_t m = 0; m < table_.given.size(); out += mine_.parts[m++]) {
        std::memcpy(out, table_.given[m].data(), mine_.parts[m]);
      }
      copied_ = true;
      ++table_.rounds[me_];
    }
    return all_at(table_.rounds[me_]) ? Progress::kDone : Progress::kMoved;
  }
  int waiting_for() const override {
    for (size_t m = 0; m < table_.rounds.size(); ++m) {
      if (table_.rounds[m] < table_.rounds[me_]) return static_cast<int>(m);
    }
    return -1;
  }
  void abort() noexcept override {}

 private:
  bool all_at(int round) const {
    return std::all_of(table_.rounds.begin(), table_.rounds.end(),
                       [round](const auto& other) { return other >= round; });
  }
  Exchanges& table_;
  size_t me_;
  Item mine_;
  bool copied_ = false;
};

// Runs `body` on each of three members, whose ranks are 5, 6 and 7. `trouble` is asked for the
// member that waits.
template <class Body>
void run_members(
    const Body& body, Time deadline = deadline_after(now(), std::chrono::seconds(20)),
    const std::function<Status(int me)>& trouble = [](int) { return Status(); },
    Duration last_words = std::chrono::milliseconds(100)) {
  Exchanges table(3);
  std::vector<std::thread> threads;
  for (int me = 0; me < 3; ++me) {
    threads.emplace_back([&, me] {
      ExchangeComm comm(table, static_cast<size_t>(me));
      const auto describe = [](int rank) { return "rank " + std::to_string(rank); };
      Exchange exchange(comm, {5, 6, 7}, me, deadline,
                        {describe, [&trouble, me] { return trouble(me); }, last_words});
      body(exchange);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Exchange, EveryMemberReceivesAll) {
  run_members([](Exchange& exchange) {
    for (int round = 0; round < 3; ++round) {
      const int mine = round * 10 + exchange.me();
      int all[3] = {};
      ASSERT_TRUE(exchange.give(&mine, sizeof mine, all).ok());
      for (int m = 0; m < 3; ++m) EXPECT_EQ(all[m], round * 10 + m);
    }
    EXPECT_TRUE(exchange.conclude({}).ok());
  });
}

TEST(Exchange, FailureOfOneReachesThoseWhoStillGive) {
  run_members([](Exchange& exchange) {
    if (exchange.me() == 1) {
      EXPECT_EQ(exchange.conclude(Status(Code::kUnsupported, "no library here")).message(),
                "no library here");
      return;
    }
    const int mine = 0;
    int all[3] = {};
    const Status given = exchange.give(&mine, sizeof mine, all);
    EXPECT_EQ(given.code(), Code::kUnsupported);
    EXPECT_EQ(given.message(), "rank 6: no library here");
    EXPECT_EQ(given.rank(), 6);
    EXPECT_EQ(exchange.conclude({}).message(), "rank 6: no library here");
  });
}

TEST(Exchange, MembersAtDifferentPlacesFindOut) {
  run_members([](Exchange& exchange) {
    const int64_t mine = 0;
    int64_t all[3] = {};
    const Status given = exchange.give(&mine, exchange.me() == 2 ? 4 : 8, all);
    EXPECT_EQ(given.code(), Code::kInternal) << given.message();
  });
}

TEST(Exchange, MemberThatDoesNotComeIsNamedAtTheDeadline) {
  run_members(
      [](Exchange& exchange) {
        if (exchange.me() == 0) return;
        const Status concluded = exchange.conclude({});
        EXPECT_EQ(concluded.code(), Code::kTimeout);
        EXPECT_EQ(concluded.rank(), 5);
        EXPECT_NE(concluded.message().find("no answer of rank 5"), std::string::npos)
            << concluded.message();
      },
      deadline_after(now(), std::chrono::milliseconds(50)));
}

// Member 0 never comes, because the rank behind it is gone: nobody waits for it, nor names whom he
// waits for.
TEST(Exchange, NobodyWaitsWhenARankIsLost) {
  const Time began = now();
  run_members(
      [](Exchange& exchange) {
        if (exchange.me() == 0) return;
        const Status concluded = exchange.conclude({});
        EXPECT_EQ(concluded.code(), Code::kPeerLost);
        EXPECT_EQ(concluded.rank(), 5);
        EXPECT_EQ(exchange.conclude({}).message(), "rank 5 was killed");
      },
      deadline_after(now(), std::chrono::seconds(20)),
      [](int) { return Status(Code::kPeerLost, "rank 5 was killed").with_rank(5); });
  EXPECT_LT(now() - began, hvd::testing::scaled(std::chrono::seconds(10)));
}

// Member 1 says why it cannot go on when the others know already that it has left. How many members
// heard why.
int last_words_heard() {
  std::atomic<bool> left{false};
  std::atomic<int> told[3] = {}, heard{0};
  run_members(
      [&](Exchange& exchange) {
        Status mine;
        if (exchange.me() == 1) {
          left = true;
          while (told[0] == 0 || told[2] == 0) std::this_thread::yield();
          mine = Status(Code::kUnsupported, "no library here");
        }
        const Status concluded = exchange.conclude(mine);
        if (concluded.code() == Code::kUnsupported) {
          ++heard;
        } else {
          EXPECT_EQ(concluded.message(), "rank 6 left");
        }
      },
      deadline_after(now(), std::chrono::seconds(20)),
      [&](int me) {
        if (!left) return Status();
        ++told[me];
        return Status(Code::kPeerLost, "rank 6 left").with_rank(6);
      },
      std::chrono::seconds(20));  // a loaded machine may let a member stand still
  return heard;
}

// A member that says why it cannot go on leaves at once; that it has left may be known before what
// it said.
TEST(Exchange, LastWordsOfWhoHasLeftAreHeard) { EXPECT_EQ(last_words_heard(), 3); }

}  // namespace
}  // namespace hvd::backend::plugin
