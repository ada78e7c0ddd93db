// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/open_store.h"

#include <gtest/gtest.h>

#include "places.h"

namespace hvd::rendezvous {
namespace {

TEST(OpenStore, RefusesRanksThatDoNotExist) {
  for (const auto& [rank, size] : {std::pair(2, 2), {-2, 2}, {0, 0}}) {
    EXPECT_EQ(open_store(MemoryUrl{"x"}, settings_of(rank, size, now())).status().code(),
              Code::kInvalidArgument);
  }
  EXPECT_EQ(open_store(MemoryUrl{"x"}, settings_of(7, 2, now())).status().message(),
            "rendezvous: rank 7 does not exist in a job of 2");
}

TEST(OpenStore, TheEnvironmentIsNoStore) {
  EXPECT_EQ(open_store(EnvUrl{}, settings_of(0, 1, now())).status().code(), Code::kInvalidArgument);
}

TEST(OpenStore, MemoryStoresOfOneNameAreSharedWhileSomebodyHoldsThem) {
  const MemoryUrl url{fresh_name()};
  {
    const auto first = open_store(url, settings_of(0, 2, now())).value();
    const auto second = open_store(url, settings_of(1, 2, now())).value();
    const auto other = open_store(MemoryUrl{url.name + "x"}, settings_of(0, 2, now())).value();
    ASSERT_TRUE(first->set("key", "x").ok());
    EXPECT_TRUE(second->get("key", now()).ok());
    EXPECT_FALSE(other->get("key", now()).ok());
  }
  EXPECT_FALSE(open_store(url, settings_of(0, 2, now())).value()->get("key", now()).ok());
}

}  // namespace
}  // namespace hvd::rendezvous
