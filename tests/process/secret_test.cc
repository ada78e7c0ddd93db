// SPDX-License-Identifier: Apache-2.0
// S1 of the reliability design: while ranks run with a secret, it is in no command line, no
// environment, no log and no core.
#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "process/team.h"

namespace hvd::testing {
namespace {

namespace fs = std::filesystem;

struct TestSecret {
  std::string bytes, digits;

  TestSecret() : bytes(32, '\0') {
    EXPECT_EQ(::getrandom(bytes.data(), bytes.size(), 0), 32);
    constexpr char kHex[] = "0123456789abcdef";
    for (const char c : bytes) digits += {kHex[static_cast<unsigned char>(c) >> 4], kHex[c & 15]};
  }
  // Where in `text` the secret is, or the half of it, in any form.
  std::string found_in(const std::string& text) const {
    std::string upper = digits;
    std::transform(upper.begin(), upper.end(), upper.begin(),
                   [](char c) { return static_cast<char>(std::toupper(c)); });
    for (const std::string& form : {bytes, digits, upper}) {
      for (const size_t begin : {size_t{0}, form.size() / 2}) {
        if (text.find(form.substr(begin, form.size() / 2)) != std::string::npos)
          return form.size() == 32 ? "bytes" : "digits";
      }
    }
    return "";
  }
};

std::string content_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// A loopback port at which nobody listens.
uint16_t free_port() {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  socklen_t size = sizeof address;
  EXPECT_EQ(::bind(socket, reinterpret_cast<const sockaddr*>(&address), size), 0);
  EXPECT_EQ(::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size), 0);
  ::close(socket);
  return ntohs(address.sin_port);
}

// Waits until somebody listens at the port.
bool is_served(uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  for (const int64_t end = monotonic_ns() + 10'000'000'000; monotonic_ns() < end; ::usleep(1000)) {
    const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int connected =
        ::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address);
    ::close(socket);
    if (connected == 0) return true;
  }
  return false;
}

// A core file of a running process; "" if this machine has no tool for that or does not permit it.
std::string core_of(pid_t pid, const std::string& folder) {
  const std::string command =
      "gcore -o " + folder + "/core " + std::to_string(pid) + " >/dev/null 2>&1";
  if (std::system(command.c_str()) != 0) return "";
  const std::string path = folder + "/core." + std::to_string(pid);
  std::string core = content_of(path);
  fs::remove(path);
  return core;
}

void expect_not_in_proc(const TestSecret& secret) {
  size_t looked_at = 0;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    for (const char* file : {"cmdline", "environ"}) {
      EXPECT_EQ(secret.found_in(content_of(entry.path() / file)), "") << entry.path() / file;
    }
    ++looked_at;
  }
  EXPECT_GE(looked_at, 3u);
}

class S1 : public ::testing::Test {
 protected:
  S1() {
    const std::string path = folder_.path() + "/secret";
    std::ofstream(path) << secret_.digits << "\n";
    fs::permissions(path, fs::perms::owner_read | fs::perms::owner_write);
    shared_ = {"url=tcp://127.0.0.1:" + std::to_string(port_) + "/job",
               "option:secret_file=" + path, "option:log_level=trace", "folder=" + folder_.path()};
  }
  void expect_not_in_logs() const {
    for (const int rank : {0, 1}) {
      const fs::path path = folder_.path() + "/log." + std::to_string(rank);
      EXPECT_TRUE(fs::exists(path));
      EXPECT_EQ(secret_.found_in(content_of(path)), "") << path;
    }
  }
  Folder folder_;
  const uint16_t port_ = free_port();
  const TestSecret secret_;
  std::vector<std::string> shared_;
};

TEST_F(S1, TheSecretIsInNoCommandLineEnvironmentOrLog) {
  Team team("secret", 2, shared_);
  team[1].order("join");
  for (const int rank : {0, 1}) ASSERT_EQ(team[rank].expect("ready"), "ready") << team[rank].said();
  expect_not_in_proc(secret_);
  for (const int rank : {0, 1}) team[rank].order("go");
  team.expect_good();
  expect_not_in_logs();
}

TEST_F(S1, TheSecretIsInNoCore) {
  EXPECT_EQ(secret_.found_in("x" + secret_.bytes + "x"), "bytes")
      << "what is looked for can be found";
  EXPECT_EQ(secret_.found_in("x" + secret_.digits.substr(32)), "digits");
  Team team("secret", 2, shared_);
  // Then rank 0 has read the secret, uses it and waits for the other.
  ASSERT_TRUE(is_served(port_));
  const std::string early = core_of(team[0].pid(), folder_.path());
  if (early.empty()) GTEST_SKIP() << "gcore is not installed or may not look at a process";
  EXPECT_GT(early.size(), size_t{100'000});
  EXPECT_EQ(secret_.found_in(early), "");
  team[1].order("join");
  for (const int rank : {0, 1})
    ASSERT_EQ(team[rank].expect("ready", 30'000'000'000), "ready") << team[rank].said();
  for (const int rank : {0, 1})
    EXPECT_EQ(secret_.found_in(core_of(team[rank].pid(), folder_.path())), "") << "rank " << rank;
  for (const int rank : {0, 1}) team[rank].order("go");
  team.expect_good();
}

}  // namespace
}  // namespace hvd::testing
