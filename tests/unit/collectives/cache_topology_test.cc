// SPDX-License-Identifier: Apache-2.0
// Which members are taken to be far, given how long their marks take to read.
#include "collectives/cache_topology.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <vector>

#include "unit/collectives/world.h"

namespace hvd::test {
namespace {

using collectives::CacheTopology;
using collectives::kFarNs;
using collectives::kLooksForFar;
using collectives::kRoundsToLook;
using collectives::NonTemporalStores;
using collectives::Slots;

std::map<int, int64_t> taken;  // per member
std::vector<int> looked_at;

int64_t given(const Slots&, int local) {
  looked_at.push_back(local);
  return taken[local];
}

// Member 1 of a host with `size` members.
class Member {
 public:
  explicit Member(int size, NonTemporalStores stores = NonTemporalStores::kMeasured,
                  CacheTopology::Measure measure = given)
      : memory_(std::aligned_alloc(4096, bytes_of(size)), &std::free) {
    std::memset(memory_.get(), 0, bytes_of(size));
    taken.clear();
    looked_at.clear();
    lane_.host_of.assign(static_cast<size_t>(size), 0);
    for (int m = 0; m < size; ++m) {
      lane_.local.push_back(m);
      lane_.ranks.push_back(m);
      lane_.streams.push_back(nullptr);
    }
    lane_.me = lane_.me_local = size > 1 ? 1 : 0;
    lane_.hosts = 1;
    lane_.bell = &bell_;
    lane_.memory = {static_cast<std::byte*>(memory_.get()), bytes_of(size)};
    slots = std::make_unique<Slots>(lane_);
    caches = std::make_unique<CacheTopology>(*slots, stores, measure);
  }

  void rounds(int count) {
    for (int i = 0; i < count; ++i, ++round_) {
      caches->show(round_);
      caches->look(round_);
    }
  }

  std::unique_ptr<Slots> slots;
  std::unique_ptr<CacheTopology> caches;

 private:
  static size_t bytes_of(int size) {
    return static_cast<size_t>(size) * collectives::bytes_per_member(size, 1);
  }

  std::unique_ptr<void, decltype(&std::free)> memory_;
  NoBell bell_;
  transport::Lane lane_;
  uint32_t round_ = UINT32_MAX - 5;
};

TEST(CacheTopology, WhoAlwaysTakesLongIsFarUntilOneLookSaysOtherwise) {
  Member member(2);
  taken[0] = kFarNs + 1;
  member.rounds(kLooksForFar * kRoundsToLook - 1);
  EXPECT_FALSE(member.caches->far(0));
  member.rounds(1);
  EXPECT_TRUE(member.caches->far(0));
  EXPECT_TRUE(member.caches->far_from_most());
  member.rounds(5 * kRoundsToLook);
  taken[0] = kFarNs;
  member.rounds(kRoundsToLook - 1);
  EXPECT_TRUE(member.caches->far(0));
  member.rounds(1);
  EXPECT_FALSE(member.caches->far(0));
  EXPECT_FALSE(member.caches->far_from_most());
}

TEST(CacheTopology, WhoTakesLongAtTimesIsNear) {
  Member member(2);
  for (int look = 0; look < 20; ++look) {
    taken[0] = look % kLooksForFar == 0 ? 0 : 2 * kFarNs;
    member.rounds(kRoundsToLook);
    EXPECT_FALSE(member.caches->far(0)) << look;
  }
}

TEST(CacheTopology, OneMemberIsLookedAtATimeAndNeverOneself) {
  Member member(4);
  taken[2] = taken[3] = 2 * kFarNs;
  member.rounds(3 * kRoundsToLook);
  EXPECT_EQ(looked_at, (std::vector<int>{2, 3, 0}));
  EXPECT_FALSE(member.caches->far(2) || member.caches->far(3));
  member.rounds(3 * (kLooksForFar - 1) * kRoundsToLook);
  EXPECT_TRUE(member.caches->far_from_most());
  EXPECT_TRUE(member.caches->far(2) && member.caches->far(3));
  EXPECT_FALSE(member.caches->far(0) || member.caches->far(1));
  taken[3] = 0;
  member.rounds(3 * kRoundsToLook);
  EXPECT_TRUE(member.caches->far(2));
  EXPECT_FALSE(member.caches->far_from_most());  // one of three
}

TEST(CacheTopology, ARoundIsLookedAtOnlyIfItWasShown) {
  Member member(2);
  // one ahead, as the collectives do
  for (uint32_t round = 0; round < 3U * kRoundsToLook; ++round) {
    member.caches->show(round);
    if (round > 0) member.caches->look(round - 1);
    EXPECT_EQ(looked_at.size(), round / kRoundsToLook) << round;
  }
}

TEST(CacheTopology, WhatIsGivenIsNotMeasured) {
  for (const NonTemporalStores stores : {NonTemporalStores::kNever, NonTemporalStores::kAlways}) {
    Member member(3, stores);
    taken[0] = taken[2] = stores == NonTemporalStores::kNever ? 2 * kFarNs : 0;
    member.rounds(20 * kRoundsToLook);
    EXPECT_TRUE(looked_at.empty());
    EXPECT_EQ(member.caches->far(0), stores == NonTemporalStores::kAlways);
    EXPECT_EQ(member.caches->far_from_most(), stores == NonTemporalStores::kAlways);
  }
}

TEST(CacheTopology, AloneOnAHost) {
  Member member(1);
  member.rounds(20 * kRoundsToLook);
  EXPECT_TRUE(looked_at.empty());
  EXPECT_FALSE(member.caches->far_from_most());
}

TEST(CacheTopology, MarksAreReadFromTheOtherMember) {
  Member member(2, NonTemporalStores::kMeasured, CacheTopology::time_to_read);
  for (size_t i = 0; i < Slots::kMarks; ++i) {
    EXPECT_NE(&member.slots->mark(0, i), &member.slots->mark(1, i));
    EXPECT_EQ(member.slots->mark(0, i).load(), 0U);
  }
  EXPECT_LT(CacheTopology::time_to_read(*member.slots, 0), int64_t{10'000'000'000});
  member.rounds(20 * kRoundsToLook);
  EXPECT_FALSE(member.caches->far(1));
}

}  // namespace
}  // namespace hvd::test
