// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/file_store.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <set>

#include "places.h"

namespace hvd::rendezvous {
namespace {

namespace fs = std::filesystem;

TEST(FileStore, MakesAPrivateDirectory) {
  const TemporaryDirectory parent;
  const std::string directory = parent.path() + "/store";
  ASSERT_TRUE(FileStore::open(directory).ok());
  struct stat facts = {};
  ASSERT_EQ(::stat(directory.c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 07777, 0700u);
  ASSERT_TRUE(FileStore::open(directory).value()->set("key", "x").ok());
  for (const auto& entry : fs::directory_iterator(directory)) {
    ASSERT_EQ(::stat(entry.path().c_str(), &facts), 0);
    EXPECT_EQ(facts.st_mode & 07777, 0600u) << entry.path();
  }
}

TEST(FileStore, RefusesADirectoryThatOthersMayWrite) {
  const TemporaryDirectory parent;
  for (const mode_t mode : {0770, 0777, 0702}) {
    ASSERT_EQ(::chmod(parent.path().c_str(), mode), 0);
    const Status status = FileStore::open(parent.path()).status();
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    EXPECT_NE(status.message().find("others may write"), std::string::npos) << status.message();
  }
  ASSERT_EQ(::chmod(parent.path().c_str(), 0755), 0);
  EXPECT_TRUE(FileStore::open(parent.path()).ok());
}

TEST(FileStore, RefusesADirectoryOfAnotherUser) {
  const TemporaryDirectory parent;
  const std::string directory = parent.path() + "/store";
  ASSERT_EQ(::mkdir(directory.c_str(), 0700), 0);
  if (::geteuid() != 0) {
    // Without root no directory can be given away; the system's own belongs to somebody else.
    const Status status = FileStore::open("/usr").status();
    EXPECT_NE(status.message().find("belongs to user 0"), std::string::npos) << status.message();
    return;
  }
  ASSERT_EQ(::chown(directory.c_str(), 12345, static_cast<gid_t>(-1)), 0);
  const Status status = FileStore::open(directory).status();
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_NE(status.message().find("belongs to user 12345, this process runs as user 0"),
            std::string::npos)
      << status.message();
}

TEST(FileStore, RefusesLinksFilesAndMissingParents) {
  const TemporaryDirectory parent;
  ASSERT_EQ(::mkdir((parent.path() + "/real").c_str(), 0700), 0);
  fs::create_symlink(parent.path() + "/real", parent.path() + "/link");
  std::ofstream(parent.path() + "/file") << "x";
  EXPECT_EQ(FileStore::open(parent.path() + "/link").status().code(), Code::kIo);
  EXPECT_EQ(FileStore::open(parent.path() + "/file").status().code(), Code::kIo);
  const Status status = FileStore::open(parent.path() + "/no/parent").status();
  EXPECT_EQ(status.message(), "store file://" + parent.path() +
                                  "/no/parent: make directory: No such file or directory (2)");
}

TEST(FileStore, LeavesNothingButEntriesAndTheLock) {
  const TemporaryDirectory parent;
  const auto store = FileStore::open(parent.path()).value();
  for (int round = 0; round < 20; ++round) {
    ASSERT_TRUE(store->set("key", std::to_string(round)).ok());
    ASSERT_TRUE(store->add("counter", 1).ok());
  }
  ASSERT_TRUE(store->remove("key").ok());
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(parent.path()))
    names.insert(entry.path().filename());
  EXPECT_EQ(names, (std::set<std::string>{"k.counter", "lock"}));
}

TEST(FileStore, ADirectoryThatVanishedIsAnError) {
  const TemporaryDirectory parent;
  const auto store = FileStore::open(parent.path() + "/store").value();
  fs::remove_all(parent.path() + "/store");
  EXPECT_EQ(store->set("key", "x").code(), Code::kIo);
  EXPECT_EQ(store->add("key", 1).status().code(), Code::kIo);
}

TEST(FileNames, AreShortPlainAndDifferent) {
  std::set<std::string> names;
  std::set<std::string> keys;
  for (const char c : {'a', '/', '\xff', '%', '.'}) {
    for (size_t size = 1; size <= 200; ++size) {
      keys.insert(std::string(size, c));
      keys.insert(std::string(size - 1, c) + "b");
      keys.insert("b" + std::string(size - 1, c));
    }
  }
  for (const std::string& key : keys) {
    const std::string name = file_name_of_key(key);
    EXPECT_LE(name.size(), 255u);
    EXPECT_EQ(name.find('/'), std::string::npos);
    EXPECT_TRUE(names.insert(name).second) << key;
  }
  EXPECT_EQ(file_name_of_key("rank/3"), "k.rank%2f3");
}

}  // namespace
}  // namespace hvd::rendezvous
