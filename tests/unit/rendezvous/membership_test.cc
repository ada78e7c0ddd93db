// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/membership.h"

#include <errno.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <thread>

#include "rendezvous/memory_store.h"
#include "rendezvous/watched_store.h"

namespace hvd::rendezvous {
namespace {

// A launcher that hears one worker, and says to it what a test wants.
class LauncherOfOne {
 public:
  LauncherOfOne() {
    char pattern[] = "/tmp/hvd-members-XXXXXX";
    folder_ = ::mkdtemp(pattern);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, path().c_str());
    listener_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT_EQ(::bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(::listen(listener_, 1), 0);
  }
  ~LauncherOfOne() {
    if (worker_ >= 0) ::close(worker_);
    ::close(listener_);
    std::filesystem::remove_all(folder_);
  }

  std::string path() const { return folder_ + "/members"; }
  Environment environment() const {
    const std::map<std::string, std::string> variables = {{"HOROVOD_MEMBERSHIP", path()},
                                                          {"HOROVOD_WORKER", "7"}};
    return [variables](const std::string& name) -> std::optional<std::string> {
      const auto found = variables.find(name);
      return found == variables.end() ? std::nullopt : std::optional(found->second);
    };
  }
  // The next line of the worker; the first call waits until it has come.
  std::string hear() {
    if (worker_ < 0) worker_ = ::accept(listener_, nullptr, nullptr);
    std::string line;
    for (char c = 0; ::read(worker_, &c, 1) == 1 && c != '\n';) line += c;
    return line;
  }
  // A worker that has heard enough may be gone.
  void say(const std::string& lines) {
    (void)::send(worker_, lines.data(), lines.size(), MSG_NOSIGNAL);
  }
  void leave() { ::close(std::exchange(worker_, -1)); }

 private:
  std::string folder_;
  int listener_ = -1;
  int worker_ = -1;
};

// What asking leads to where the launcher answers so.
Result<std::shared_ptr<Membership>> asked(LauncherOfOne& launcher, const std::string& answer,
                                          int64_t position = 5) {
  std::thread thread([&] {
    EXPECT_EQ(launcher.hear(), "ask 7 " + std::to_string(position));
    launcher.say(answer);
  });
  auto found = Membership::ask(launcher.environment(), position, now() + std::chrono::seconds(20));
  thread.join();
  return found;
}

TEST(Membership, APlaceIsGiven) {
  LauncherOfOne launcher;
  EXPECT_TRUE(Membership::is_elastic(launcher.environment()));
  const auto found = asked(launcher,
                           "changed 1\nbegin 3 1 4 1 tcp://10.0.0.1:77,[::1]:77/job.3 6 "
                           "2:0,3 5:2\n");
  ASSERT_TRUE(found.ok()) << found.status().message();
  const Epoch& epoch = found.value()->epoch();
  EXPECT_EQ(epoch.number, 3);
  EXPECT_EQ(epoch.rank, 1);
  EXPECT_EQ(epoch.size, 4);
  EXPECT_TRUE(epoch.synchronize);
  EXPECT_EQ(epoch.url, "tcp://10.0.0.1:77,[::1]:77/job.3");
  EXPECT_EQ(epoch.next_set_id, 6);
  EXPECT_EQ(epoch.sets, (std::map<int32_t, std::vector<int>>{{2, {0, 3}}, {5, {2}}}));
  EXPECT_EQ(found.value()->changes().value(), 0u);  // those before the epoch do not count
}

TEST(Membership, ChangesAddUp) {
  LauncherOfOne launcher;
  const auto found = asked(launcher, "begin 1 0 1 0 file:///x 1\n", -1);
  ASSERT_TRUE(found.ok());
  launcher.say("changed 1\nchan");
  EXPECT_EQ(found.value()->changes().value(), 1u);
  launcher.say("ged 2\n");
  EXPECT_EQ(found.value()->changes().value(), 3u);
  EXPECT_TRUE(found.value()->lost().ok());
  EXPECT_TRUE(found.value()->leave().ok());
  EXPECT_EQ(launcher.hear(), "leave 7");
  EXPECT_TRUE(found.value()->tell_of_set(3, {0, 2}).ok());
  EXPECT_EQ(launcher.hear(), "set 7 3 0,2");
  EXPECT_TRUE(found.value()->tell_of_set(3, {}).ok());
  EXPECT_EQ(launcher.hear(), "unset 7 3");
  launcher.leave();
  EXPECT_EQ(found.value()->changes().status().code(), Code::kIo);
}

TEST(Membership, WhoIsRefusedHearsWhy) {
  LauncherOfOne launcher;
  const auto found = asked(launcher, "refuse its host was taken out of the job\n");
  EXPECT_EQ(found.status().code(), Code::kDismissed);
  EXPECT_NE(found.status().message().find("its host was taken out of the job"), std::string::npos);
}

TEST(Membership, WhoIsExpelledHearsWhyAndTheOthersHearWho) {
  LauncherOfOne launcher;
  const Status status = asked(launcher, "expel it stood still\n").status();
  EXPECT_EQ(status.code(), Code::kDismissed);
  EXPECT_EQ(status.sys_errno(), ETIMEDOUT);
  EXPECT_NE(status.message().find("it stood still"), std::string::npos);

  LauncherOfOne of_another;
  const auto found = asked(of_another, "expelled 0 before the epoch\nbegin 1 0 4 1 file:///x 1\n");
  ASSERT_TRUE(found.ok());
  EXPECT_TRUE(found.value()->expelled().value().empty());
  of_another.say("expelled 2 stood still\nexpelled x\n");
  // Whoever has taken the line in, the bell tells that there is news.
  EXPECT_EQ(found.value()->changes().value(), 0u);
  EXPECT_EQ(found.value()->lost().code(), Code::kPeerLost);
  pollfd bell{found.value()->descriptors()[1], POLLIN, 0};
  EXPECT_EQ(::poll(&bell, 1, 0), 1);
  EXPECT_EQ(found.value()->expelled().value(), (std::map<int, std::string>{{2, "stood still"}}));
  EXPECT_TRUE(found.value()->expelled().value().empty());
  EXPECT_EQ(::poll(&bell, 1, 0), 0);
  of_another.leave();
  EXPECT_FALSE(found.value()->expelled().ok());
}

TEST(Membership, NonsenseIsAnError) {
  for (const char* const answer :
       {"begin\n", "begin 1 2 2 0 file:///x 1\n", "begin 0 0 1 0 file:///x 1\n",
        "begin 1 -1 2 0 file:///x 1\n", "begin 1 0 1 0\n", "begin 1 0 1 0 file:///x\n",
        "begin 1 0 2 0 file:///x 2 1\n", "begin 1 0 2 0 file:///x 2 1:\n",
        "begin 1 0 2 0 file:///x 2 1:0;1\n", "begin 1 0 2 0 file:///x 2 1:0,2\n",
        "begin 1 0 2 0 file:///x 2 2:0\n", "begin 1 0 2 0 file:///x 2 0:0\n",
        "begin 1 0 2 0 file:///x 2 1:0 1:1\n"}) {
    LauncherOfOne launcher;
    const auto found = asked(launcher, answer);
    EXPECT_EQ(found.status().code(), Code::kIo) << answer;
  }
  LauncherOfOne launcher;
  const auto endless = asked(launcher, std::string(2'000'000, 'x'));
  EXPECT_EQ(endless.status().code(), Code::kIo);
}

TEST(Membership, AnswersAreWaitedForUntilTheDeadline) {
  LauncherOfOne launcher;
  const auto found =
      Membership::ask(launcher.environment(), 0, now() + std::chrono::milliseconds(30));
  EXPECT_EQ(found.status().code(), Code::kTimeout);
}

TEST(Membership, ALauncherThatIsGoneIsAnError) {
  Environment environment;
  {
    const LauncherOfOne launcher;
    environment = launcher.environment();
  }
  const auto found = Membership::ask(environment, 0, kNever);
  EXPECT_EQ(found.status().code(), Code::kIo);
  EXPECT_NE(found.status().sys_errno(), 0);
}

TEST(WatchedStore, WaitingEndsWhenAMemberIsLost) {
  LauncherOfOne launcher;
  const auto found = asked(launcher, "begin 1 0 2 1 file:///x 1\n");
  ASSERT_TRUE(found.ok());
  WatchedStore store(std::make_shared<MemoryStore>(), found.value());
  EXPECT_EQ(store.get("nobody", now() + std::chrono::milliseconds(30)).status().code(),
            Code::kTimeout);
  ASSERT_TRUE(store.set("there", "yes").ok());
  launcher.say("lost 4\n");
  EXPECT_EQ(store.get("there", kNever).value(), "yes");
  const Status status = store.get("nobody", kNever).status();
  EXPECT_EQ(status.code(), Code::kPeerLost);
  EXPECT_NE(status.message().find("worker 4 ended"), std::string::npos);
}

}  // namespace
}  // namespace hvd::rendezvous
