// SPDX-License-Identifier: Apache-2.0
// What ranks are told of each other's settings and versions before they connect.
#include <hvd/version.h>

#include "unit/transport/world.h"

namespace hvd::transport::testing {
namespace {

TEST(FabricOptionsCheck, SettingsThatMustAgree) {
  struct Case {
    const char* message;
    void (*change)(FabricOptions&);
  };
  const Case cases[] = {
      {"init: security differs: rank 0 auth, rank 1 none",
       [](FabricOptions& options) { options.security = secure::Level::kNone; }},
      {"init: data_mac differs: rank 0 0, rank 1 1",
       [](FabricOptions& options) { options.data_mac = true; }},
      {"init: tcp_streams differs: rank 0 1, rank 1 2",
       [](FabricOptions& options) { options.tcp_streams = 2; }},
  };
  for (const Case& one : cases) {
    Folder folder;
    const auto body = [&](int rank) {
      FolderStore store(folder.path());
      FabricOptions options = options_for({}, rank, 2);
      if (rank == 1) one.change(options);
      const Result<std::unique_ptr<Fabric>> opened = open_fabric(store, options);
      ASSERT_FALSE(opened.ok());
      EXPECT_EQ(opened.status().code(), Code::kMismatch);
      EXPECT_EQ(opened.status().message(), one.message);
    };
    std::thread other(body, 1);
    body(0);
    other.join();
  }
}

// Between protocols that are equal, too: what each version computes is its own.
TEST(FabricOptionsCheck, AllRanksHaveOneVersion) {
  for (const int other : {0, 2}) {
    Folder folder;
    const auto body = [&](int rank) {
      FolderStore store(folder.path());
      FabricOptions options =
          options_for({.in_process = false, .hosts = {"a", "b", "c d"}}, rank, 3);
      if (rank == other) options.library = "9.8.7";
      const Result<std::unique_ptr<Fabric>> opened = open_fabric(store, options);
      ASSERT_FALSE(opened.ok());
      EXPECT_EQ(opened.status().code(), Code::kVersion);
      const std::string pid = std::to_string(::getpid());
      const std::string text = opened.status().message();
      EXPECT_NE(text.find("rank 0 (host a, pid " + pid + ") has " +
                          (other == 0 ? "9.8.7" : HVD_VERSION_STRING)),
                std::string::npos)
          << text;
      if (other == 2) {
        EXPECT_NE(text.find("rank 2 (host c d, pid " + pid + ") has 9.8.7 (protocol "),
                  std::string::npos)
            << text;
      }
    };
    std::vector<std::thread> threads;
    for (int rank = 0; rank < 3; ++rank) threads.emplace_back(body, rank);
    for (std::thread& thread : threads) thread.join();
  }
}

TEST(FabricOptionsCheck, RankOutOfRange) {
  Folder folder;
  FolderStore store(folder.path());
  FabricOptions options;
  options.rank = 2;
  options.size = 2;
  const auto opened = open_fabric(store, options);
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.status().code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace hvd::transport::testing
