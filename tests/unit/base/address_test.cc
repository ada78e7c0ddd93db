// SPDX-License-Identifier: Apache-2.0
#include "base/address.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace hvd {
namespace {

TEST(SocketAddress, ReadsWhatItWrites) {
  for (const char* text : {"10.0.0.1:7777", "127.0.0.1:1", "[fd00::1]:65535", "[::1]:0"}) {
    const auto address = SocketAddress::parse(text);
    ASSERT_TRUE(address) << text;
    EXPECT_EQ(text, address->text());
  }
}

TEST(SocketAddress, RefusesWhatIsNone) {
  for (const char* text :
       {"", ":", "10.0.0.1", "10.0.0.1:", "10.0.0.1:70000", "10.0.0:1", "fd00::1:5", "[10.0.0.1]:5",
        "[]:5", "host:5", "10.0.0.1:5x", "[fe80::1%eth0]:5"}) {
    EXPECT_FALSE(SocketAddress::parse(text)) << text;
  }
}

TEST(SocketAddress, KnowsLoopback) {
  for (const char* text : {"127.0.0.1:1", "127.9.8.7:1", "[::1]:1", "[::ffff:127.0.0.1]:1"}) {
    EXPECT_TRUE(SocketAddress::parse(text)->is_loopback()) << text;
  }
  for (const char* text : {"128.0.0.1:1", "10.0.0.1:1", "[::2]:1", "[::ffff:10.0.0.1]:1"}) {
    EXPECT_FALSE(SocketAddress::parse(text)->is_loopback()) << text;
  }
}

TEST(Interfaces, FindsLoopbackByName) {
  const auto found = addresses_of("lo");
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_TRUE(std::any_of(
      found.value().begin(), found.value().end(),
      [](const InterfaceAddress& entry) { return entry.address.host() == "127.0.0.1"; }));
}

TEST(Interfaces, ListsWhatThereIsWhenANameIsWrong) {
  const auto found = addresses_of("lo,nonesuch0");
  EXPECT_EQ(Code::kInvalidArgument, found.status().code());
  EXPECT_NE(std::string::npos, found.status().message().find("\"nonesuch0\""))
      << found.status().message();
  EXPECT_NE(std::string::npos, found.status().message().find("lo (127.0.0.1)"))
      << found.status().message();
}

TEST(Resolve, TakesNumbersAsTheyAre) {
  const auto found = resolve("fd00::7", 5);
  ASSERT_TRUE(found.ok());
  ASSERT_EQ(1u, found.value().size());
  EXPECT_EQ("[fd00::7]:5", found.value()[0].text());
}

TEST(Resolve, NamesTheHostItDoesNotFind) {
  const auto found = resolve("no-such-host.invalid", 5);
  EXPECT_EQ(Code::kIo, found.status().code());
  EXPECT_NE(std::string::npos, found.status().message().find("no-such-host.invalid"))
      << found.status().message();
}

}  // namespace
}  // namespace hvd
