// SPDX-License-Identifier: Apache-2.0
// Seeded runs of the negotiation: random orders of submitting, delivering, running; mismatches,
// joins, missing ranks with timeouts, ranks that leave or die, duplicated messages. HVD_MODEL_RUNS
// and HVD_MODEL_SEED choose others than the default.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <random>

#include "world.h"

namespace hvd::model {
namespace {

using Ask = World::Ask;

// Missing: comes when the others have given up. Late: the ranks have little time, and may just make
// it.
enum class Fault { kNone, kMismatch, kMissing, kLate };
enum class Drama { kNone, kBye, kLoss, kDuplicate, kJoin };

// One operation that all ranks are meant to submit.
struct Use {
  Ask ask;
  Fault fault = Fault::kNone;
  int odd_rank = -1;  // who differs, or never comes
};

class Interleaving {
 public:
  enum class About { kEverything, kEagerExchange };
  Interleaving(uint64_t seed, About about)
      : random_(seed),
        about_(about),
        world_(about == About::kEagerExchange ? 2 : pick(1, 6), options(), exchange_ = chance(70)) {
    drama_ = static_cast<Drama>(pick(0, 4));
    const bool of_exchange = drama_ == Drama::kJoin || drama_ == Drama::kBye;
    if (about_ == About::kEagerExchange && !of_exchange) drama_ = Drama::kNone;
    const int names = pick(1, about_ == About::kEagerExchange ? 2 : 6);
    for (int name = 0; name < names; ++name) uses_.push_back(make_uses(name));
    done_.assign(size(), std::vector<size_t>(uses_.size(), 0));
    in_flight_.assign(size(), std::vector<int64_t>(uses_.size(), -1));
    indices_.resize(size());
  }

  void play() {
    int steps = 400;
    const int drama_at = pick(0, 60);
    for (int step = 0; step < steps && world_.fault().empty(); ++step) {
      if (step == drama_at) act();
      take_step();
    }
    for (int round = 0; round < 40 && !finished(); ++round) {
      for (int rank = 0; rank < world_.size(); ++rank) submit_all(rank);
      world_.settle();
    }
    join_all();
    world_.settle();
  }

  void check() {
    ASSERT_EQ(world_.fault(), "");
    // A transport that repeats messages is broken; then it is enough that nothing ends twice and
    // nothing crashes.
    if (drama_ == Drama::kDuplicate) return;
    for (int rank = 0; rank < world_.size(); ++rank) {
      for (size_t index = 0; index < world_.submitted(rank); ++index) {
        ASSERT_TRUE(world_.ended(rank, index))
            << world_.subject(rank, index) << " never ended on rank " << rank << " of "
            << world_.size() << ", drama " << static_cast<int>(drama_);
      }
    }
    check_traces();
    // Who leaves in order breaks nothing.
    if (drama_ == Drama::kBye) {
      ASSERT_FALSE(world_.broken()) << world_.broken_with().message();
    }
    if (drama_ == Drama::kNone || drama_ == Drama::kJoin) {
      ASSERT_FALSE(world_.broken()) << world_.broken_with().message();
      check_results();
    }
  }

 private:
  struct Submitted {
    size_t name;
    size_t use;
    size_t index;
  };

  size_t size() { return static_cast<size_t>(world_.size()); }
  int pick(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }
  bool chance(int percent) { return pick(1, 100) <= percent; }

  Options options() {
    Options options;
    const int64_t capacities[] = {0, 1, 2, 8, 1024};
    const int64_t thresholds[] = {0, 64, 1 << 20};
    options.cache_capacity = capacities[pick(about_ == About::kEagerExchange ? 1 : 0, 4)];
    options.fusion_threshold = thresholds[pick(0, 2)];
    options.look_ahead = chance(50);
    options.stall_check_time_seconds = 5;
    return options;
  }

  Ask make_ask(const std::string& name) {
    Ask ask;
    ask.name = name;
    ask.priority = pick(-1, 1);
    const OpKind kinds[] = {OpKind::kAllreduce, OpKind::kAllreduce, OpKind::kBroadcast,
                            OpKind::kAllgather, OpKind::kBarrier};
    const bool reduction =
        drama_ == Drama::kJoin || (about_ == About::kEagerExchange && chance(90));
    ask.kind = reduction ? OpKind::kAllreduce : kinds[pick(0, 4)];
    ask.eager = ask.kind == OpKind::kAllreduce && chance(about_ == About::kEagerExchange ? 90 : 40);
    if (ask.kind == OpKind::kAllgather) ask.variable = {1};
    if (ask.kind == OpKind::kAllreduce && !ask.eager) ask.dims = {pick(1, 20)};
    if (ask.kind == OpKind::kBroadcast) ask.root = pick(0, world_.size() - 1);
    return ask;
  }

  std::vector<Use> make_uses(int name) {
    std::vector<Use> uses;
    Use use;
    use.ask = make_ask("t" + std::to_string(name));
    const int count = pick(1, about_ == About::kEagerExchange ? 12 : 5);
    for (int i = 0; i < count; ++i) {
      // the same name may mean something else the next time
      if (chance(20)) use.ask = make_ask(use.ask.name);
      use.fault = Fault::kNone;
      if (world_.size() > 1 && drama_ != Drama::kJoin && chance(15)) {
        const Fault faults[] = {Fault::kMismatch, Fault::kMissing, Fault::kLate};
        use.fault = faults[pick(0, 2)];
        use.odd_rank = pick(0, world_.size() - 1);
      }
      uses.push_back(use);
    }
    return uses;
  }

  // What this rank says: the use, or its own idea of it.
  Ask said_by(int rank, const Use& use) {
    Ask ask = use.ask;
    // Which payloads travel early is each rank's own choice.
    ask.eager = ask.eager && chance(90);
    if (use.fault == Fault::kLate) ask.timeout = std::chrono::milliseconds(pick(1, 300));
    if (use.fault == Fault::kMissing) ask.timeout = std::chrono::seconds(10);
    if (use.fault != Fault::kMismatch || rank != use.odd_rank) return ask;
    if (ask.kind == OpKind::kBarrier) {
      ask.kind = OpKind::kBroadcast;
    } else if (ask.kind == OpKind::kBroadcast) {
      ask.root = (ask.root + 1) % world_.size();
    } else if (ask.kind == OpKind::kAllreduce && chance(50)) {
      ask.op = ReduceOp::kMax;
    } else {
      ask.dtype = DType::kInt32;
    }
    return ask;
  }

  bool submit_next(int rank, size_t name) {
    const auto r = static_cast<size_t>(rank);
    if (world_.gone(rank) || joined_) return false;
    if (in_flight_[r][name] >= 0) {
      if (!world_.ended(rank, static_cast<size_t>(in_flight_[r][name]))) return false;
      in_flight_[r][name] = -1;
    }
    size_t& next = done_[r][name];
    // A rank that joins leaves out its last uses.
    const size_t limit = drama_ == Drama::kJoin
                             ? uses_[name].size() - std::min<size_t>(uses_[name].size(), r % 3)
                             : uses_[name].size();
    if (next >= limit) return false;
    const Use& use = uses_[name][next];
    if (use.fault == Fault::kMissing && rank == use.odd_rank && !over_elsewhere(rank, name, next))
      return false;
    const size_t index = world_.submit(rank, said_by(rank, use));
    indices_[r].push_back({name, next, index});
    in_flight_[r][name] = static_cast<int64_t>(index);
    ++next;
    return true;
  }

  // Whether every other rank has submitted this use and given it up.
  bool over_elsewhere(int rank, size_t name, size_t use) {
    for (int other = 0; other < world_.size(); ++other) {
      if (other == rank) continue;
      const auto& theirs = indices_[static_cast<size_t>(other)];
      const auto it = std::find_if(theirs.begin(), theirs.end(), [&](const Submitted& s) {
        return s.name == name && s.use == use;
      });
      if (it == theirs.end() || !world_.ended(other, it->index)) return false;
    }
    return true;
  }

  void submit_all(int rank) {
    for (size_t name = 0; name < uses_.size(); ++name) submit_next(rank, name);
  }

  bool finished() {
    for (int rank = 0; rank < world_.size(); ++rank) {
      for (size_t name = 0; name < uses_.size(); ++name) {
        if (submit_next(rank, name)) return false;
        const int64_t index = in_flight_[static_cast<size_t>(rank)][name];
        if (index >= 0 && !world_.ended(rank, static_cast<size_t>(index))) {
          // Ranks that joined early are needed by the others' reductions.
          return drama_ == Drama::kJoin;
        }
      }
    }
    return true;
  }

  void join_all() {
    joined_ = true;
    if (drama_ != Drama::kJoin) return;
    for (int rank = 0; rank < world_.size(); ++rank) {
      Ask ask;
      ask.kind = OpKind::kJoin;
      ask.name = negotiation::kJoinName;
      joins_.push_back(world_.submit(rank, ask));
      if (chance(50)) world_.settle();
    }
  }

  void act() {
    const int rank = pick(0, world_.size() - 1);
    if (drama_ == Drama::kBye) world_.bye(rank);
    if (drama_ == Drama::kLoss) world_.lose(rank);
    if (drama_ == Drama::kDuplicate) {
      for (int to = 0; to < world_.size(); ++to) {
        if (world_.deliver_twice(rank, to)) return;
      }
    }
  }

  void take_step() {
    const int rank = pick(0, world_.size() - 1);
    switch (pick(0, 9)) {
      case 0:
      case 1:
      case 2:
        submit_next(rank, static_cast<size_t>(pick(0, static_cast<int>(uses_.size()) - 1)));
        break;
      case 3:
      case 4:
      case 5:
      case 6: world_.deliver(rank, pick(0, world_.size() - 1)); break;
      case 7:
      case 8: world_.progress(rank); break;
      // The network is faster than the second that a coordinator has for an answer.
      default:
        if (!world_.messages_waiting()) world_.advance(std::chrono::milliseconds(pick(0, 200)));
        break;
    }
  }

  void check_traces() {
    for (int rank = 1; rank < world_.size(); ++rank) {
      const Trace& a = world_.trace(0);
      const Trace& b = world_.trace(rank);
      const size_t common = std::min(a.size(), b.size());
      for (size_t i = 0; i < common; ++i) ASSERT_EQ(a[i], b[i]) << "rank " << rank << " step " << i;
      const bool whole = drama_ == Drama::kNone || drama_ == Drama::kJoin;
      if (whole) {
        ASSERT_EQ(a.size(), b.size());
      }
    }
  }

  void check_results() {
    for (int rank = 0; rank < world_.size(); ++rank) {
      for (const Submitted& it : indices_[static_cast<size_t>(rank)]) {
        const Use& use = uses_[it.name][it.use];
        const Status& status = world_.result(rank, it.index);
        check_value(rank, it);
        if (use.fault == Fault::kLate) {
          check_late(rank, it, status);
          continue;
        }
        const Code expected = use.fault == Fault::kMismatch  ? Code::kMismatch
                              : use.fault == Fault::kMissing ? Code::kTimeout
                                                             : Code::kOk;
        ASSERT_EQ(code_name(status.code()), std::string(code_name(expected)))
            << use.ask.name << " use " << it.use << " rank " << rank << ": " << status.message();
        if (expected == Code::kMismatch) {
          const std::string odd = "rank " + std::to_string(use.odd_rank) + " ";
          ASSERT_NE(status.message().find(odd), std::string::npos) << status.message();
        }
        if (expected == Code::kTimeout) {
          const std::string odd = " " + std::to_string(use.odd_rank) + " ";
          ASSERT_NE(status.message().find(odd), std::string::npos) << status.message();
        }
      }
    }
    for (size_t rank = 0; rank < joins_.size(); ++rank) {
      ASSERT_TRUE(world_.result(static_cast<int>(rank), joins_[rank]).ok());
      ASSERT_EQ(world_.last_joined(static_cast<int>(rank), joins_[rank]),
                world_.last_joined(0, joins_[0]));
    }
  }

  // All ranks end it alike, but for the one that has the coordinator's payload when the coordinator
  // gives up.
  void check_late(int rank, const Submitted& it, const Status& status) {
    ASSERT_TRUE(status.ok() || status.code() == Code::kTimeout) << status.message();
    const Status& coordinators = world_.result(0, index_on(0, it));
    const bool exchanged =
        exchange_ && world_.size() == 2 && status.ok() && world_.eager(rank, it.index);
    ASSERT_TRUE(coordinators.code() == status.code() || exchanged)
        << "rank 0: " << coordinators.message() << "; rank " << rank << ": " << status.message();
  }

  size_t index_on(int rank, const Submitted& it) {
    const auto& all = indices_[static_cast<size_t>(rank)];
    return std::find_if(all.begin(), all.end(),
                        [&](const Submitted& s) { return s.name == it.name && s.use == it.use; })
        ->index;
  }

  // Rank r contributes r + 1. The model's data plane computes nothing, so this is about payloads
  // that have travelled early.
  void check_value(int rank, const Submitted& it) {
    if (drama_ == Drama::kJoin || !world_.result(rank, it.index).ok()) return;
    for (int other = 0; other < world_.size(); ++other) {
      if (!world_.eager(other, index_on(other, it))) return;
    }
    ASSERT_EQ(world_.eager_result(rank, it.index),
              static_cast<float>(world_.size() * (world_.size() + 1) / 2));
  }

  std::mt19937_64 random_;
  About about_;
  Drama drama_ = Drama::kNone;
  bool exchange_ = false;
  World world_;
  std::vector<std::vector<Use>> uses_;           // per name
  std::vector<std::vector<size_t>> done_;        // per rank and name: uses submitted
  std::vector<std::vector<int64_t>> in_flight_;  // per rank and name: index or -1
  std::vector<std::vector<Submitted>> indices_;
  std::vector<size_t> joins_;
  bool joined_ = false;
};

uint64_t from_environment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

void play_all(Interleaving::About about) {
  const uint64_t first = from_environment("HVD_MODEL_SEED", 1);
  const uint64_t runs = from_environment("HVD_MODEL_RUNS", 20000);
  for (uint64_t seed = first; seed < first + runs; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed) +
                 "; run it alone with HVD_MODEL_RUNS=1 HVD_MODEL_SEED=" + std::to_string(seed));
    Interleaving run(seed, about);
    run.play();
    run.check();
    if (testing::Test::HasFatalFailure()) return;
  }
  std::printf("%llu interleavings, seeds %llu to %llu\n", static_cast<unsigned long long>(runs),
              static_cast<unsigned long long>(first),
              static_cast<unsigned long long>(first + runs - 1));
}

TEST(Negotiation, EveryInterleavingEndsWellOrNamesTheReason) {
  play_all(Interleaving::About::kEverything);
}

// Two ranks that mostly send their payloads early, and often have just too little time.
TEST(Negotiation, EagerExchangesAreUsedOnceOrNotAtAll) {
  play_all(Interleaving::About::kEagerExchange);
}

}  // namespace
}  // namespace hvd::model
