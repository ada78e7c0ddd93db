// SPDX-License-Identifier: Apache-2.0
// S2 of the reliability design: where a secret may come from, and from where it is refused.
#include "secure/secret.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/fd.h"

namespace hvd::secure {
namespace {

const std::string kText = "00112233445566778899aabbccddeeff00112233445566778899AABBCCDDEEFF";
const std::string kSmall = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

class S2 : public ::testing::Test {
 protected:
  S2() {
    std::string pattern = (std::filesystem::temp_directory_path() / "hvd-secret-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
  }
  ~S2() override { std::filesystem::remove_all(folder_); }

  std::string file(const std::string& text, mode_t mode = 0600) {
    const std::string path = folder_ + "/secret";
    std::ofstream(path) << text;
    EXPECT_EQ(0, ::chmod(path.c_str(), mode));
    return path;
  }
  std::string refusal(const std::string& path) {
    const Status status = Secret::from_file(path).status();
    EXPECT_FALSE(status.ok());
    EXPECT_EQ(0u, status.message().find("secret file " + path + ": ")) << status.message();
    EXPECT_EQ(std::string::npos, status.message().find(kSmall.substr(0, 20)));
    return status.message();
  }
  std::string folder_;
};

TEST_F(S2, AFileOfItsOwner) {
  for (const std::string& text : {kText, kText + "\n", kText + " \r\n"}) {
    const Result<Secret> secret = Secret::from_file(file(text));
    ASSERT_TRUE(secret.ok()) << secret.status().message();
    EXPECT_EQ(kSmall, secret.value().text());
  }
  EXPECT_TRUE(Secret::from_file(file(kText, 0400)).ok());
}

TEST_F(S2, AFileThatOthersMayReadOrWrite) {
  for (const mode_t mode : {0640, 0604, 0620, 0602, 0601, 0644}) {
    EXPECT_TRUE(refusal(file(kText, mode))
                    .ends_with("others may read or write it; chmod 600 makes it private"))
        << mode;
  }
}

TEST_F(S2, AFileOfAnotherUser) {
  const std::string path = file(kText);
  if (::chown(path.c_str(), 12345, static_cast<gid_t>(-1)) != 0)
    GTEST_SKIP() << "only root may give a file away";
  EXPECT_TRUE(refusal(path).ends_with("belongs to user 12345, not to this one (" +
                                      std::to_string(::geteuid()) + ")"));
}

TEST_F(S2, WhatIsNoSecret) {
  EXPECT_TRUE(
      refusal(file("")).ends_with("secret has 0 characters; allowed: 64 hexadecimal digits"));
  EXPECT_TRUE(refusal(file(kText.substr(1)))
                  .ends_with("secret has 63 characters; allowed: 64 hexadecimal digits"));
  EXPECT_TRUE(refusal(file(kText + "0"))
                  .ends_with("secret has 65 characters; allowed: 64 hexadecimal digits"));
  EXPECT_FALSE(Secret::from_file(file(std::string(1 << 20, 'a'))).ok());
  EXPECT_TRUE(
      refusal(file(kText.substr(0, 63) + "g")).ends_with("no hexadecimal digit at place 63"));
}

TEST_F(S2, WhatIsNoFile) {
  EXPECT_TRUE(refusal(folder_).ends_with("is no ordinary file"));
  EXPECT_TRUE(refusal(folder_ + "/missing").ends_with("No such file or directory (2)"));
  const std::string fifo = folder_ + "/fifo";
  ASSERT_EQ(0, ::mkfifo(fifo.c_str(), 0600));
  EXPECT_TRUE(refusal(fifo).ends_with("is no ordinary file"));
}

TEST_F(S2, APipeAndAFileBehindADescriptor) {
  int ends[2];
  ASSERT_EQ(0, ::pipe(ends));
  const Fd out(ends[0]);
  ASSERT_EQ(65, ::write(ends[1], (kText + "\n").data(), 65));
  ::close(ends[1]);
  EXPECT_EQ(kSmall, Secret::from_descriptor(out.get()).value().text());
  EXPECT_NE(0, ::fcntl(out.get(), F_GETFD) & FD_CLOEXEC);
  EXPECT_FALSE(Secret::from_descriptor(out.get()).ok()) << "a pipe is read once";
  const Fd memory(::memfd_create("secret", 0));
  ASSERT_EQ(64, ::write(memory.get(), kText.data(), 64));
  for (int round = 0; round < 2; ++round)
    EXPECT_EQ(kSmall, Secret::from_descriptor(memory.get()).value().text());
  EXPECT_EQ(Code::kInvalidArgument, Secret::from_descriptor(987654).status().code());
}

TEST_F(S2, RandomOnesDiffer) {
  const std::string first = Secret::random().value().text();
  EXPECT_EQ(64u, first.size());
  EXPECT_NE(first, Secret::random().value().text());
  EXPECT_EQ(first, Secret::parse(first).value().text());
  std::string text = first;
  wipe(text);
  EXPECT_TRUE(text.empty());
}

}  // namespace
}  // namespace hvd::secure
