// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/pmi.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "base/fd.h"

namespace hvd::rendezvous {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

const char kCloses[] = "closes the connection";

// The launcher's end: answers each line it reads with the next of `answers`.
class Launcher {
 public:
  explicit Launcher(std::vector<std::string> answers) {
    int ends[2] = {};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    client_ = Fd(ends[0]);
    thread_ = std::thread([this, fd = Fd(ends[1]), answers = std::move(answers)] {
      for (const std::string& answer : answers) {
        std::string line;
        for (char c = 0; ::read(fd.get(), &c, 1) == 1 && c != '\n';) line += c;
        heard_.push_back(line);
        if (answer == kCloses) return;
        EXPECT_EQ(::write(fd.get(), answer.data(), answer.size()),
                  static_cast<ssize_t>(answer.size()));
      }
      for (char c = 0; ::read(fd.get(), &c, 1) == 1;) continue;
    });
  }
  ~Launcher() {
    client_ = Fd();
    if (thread_.joinable()) thread_.join();
  }
  int fd() const { return client_.get(); }
  const std::vector<std::string>& heard() {
    client_ = Fd();
    thread_.join();
    return heard_;
  }

 private:
  Fd client_;
  std::vector<std::string> heard_;
  std::thread thread_;
};

const char kInit[] = "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n";
const char kMaxes[] = "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=100\n";
const char kName[] = "cmd=my_kvsname kvsname=kvs_7_0\n";
const char kPut[] = "cmd=put_result rc=0 msg=success\n";
const char kBarrier[] = "cmd=barrier_out\n";
const char kGet[] = "cmd=get_result rc=0 msg=success value=tcp://10.0.0.1:7777/j;ab=\n";

Result<std::string> share(Launcher& launcher, bool is_first, Duration limit = seconds(10)) {
  return share_by_pmi(launcher.fd(), is_first, "text", deadline_after(now(), limit));
}

TEST(Pmi, TheFirstPutsAndEverybodyGets) {
  Launcher launcher({kInit, kMaxes, kName, kPut, kBarrier, kGet});
  EXPECT_EQ(share(launcher, true).value(), "tcp://10.0.0.1:7777/j;ab=");
  const std::vector<std::string> expected = {"cmd=init pmi_version=1 pmi_subversion=1",
                                             "cmd=get_maxes",
                                             "cmd=get_my_kvsname",
                                             "cmd=put kvsname=kvs_7_0 key=hvd value=text",
                                             "cmd=barrier_in",
                                             "cmd=get kvsname=kvs_7_0 key=hvd"};
  EXPECT_EQ(launcher.heard(), expected);
}

TEST(Pmi, TheOthersOnlyGet) {
  Launcher launcher({kInit, kMaxes, kName, kBarrier, kGet});
  EXPECT_EQ(share(launcher, false).value(), "tcp://10.0.0.1:7777/j;ab=");
  EXPECT_EQ(launcher.heard()[3], "cmd=barrier_in");
}

TEST(Pmi, ALauncherThatWaitsForAnotherRankIsATimeout) {
  Launcher launcher({kInit, kMaxes, kName});
  const Status status = share(launcher, false, milliseconds(300)).status();
  EXPECT_EQ(status.code(), Code::kTimeout);
  EXPECT_EQ(status.message(), "PMI: the launcher does not answer; not every rank is here");
}

TEST(Pmi, WrongAnswersAreErrorsThatShowThem) {
  const struct {
    std::vector<std::string> answers;
    const char* message;
  } table[] = {
      {{"cmd=response_to_init rc=-1\n"},
       "PMI: the launcher answers \"cmd=response_to_init rc=-1\" to \"cmd=init pmi_version=1 "
       "pmi_subversion=1\""},
      {{kInit, "cmd=mine\n"}, "PMI: the launcher answers \"cmd=mine\" to \"cmd=get_maxes\""},
      {{kInit, "\x01\n"}, "PMI: the launcher sends \"?\", which is no answer"},
      {{kInit, "\n"}, "PMI: the launcher sends \"\", which is no answer"},
      {{kInit, kCloses}, "PMI: the launcher has closed the connection"},
      {{kInit, std::string(5000, 'x')}, "PMI: the launcher sends a line of more than 4096 bytes"},
      {{kInit, "cmd=maxes vallen_max=x\n", kName},
       "PMI vallen_max: value \"x\" is not allowed; allowed: integers from 1 to 1073741824"},
      {{kInit, "cmd=maxes vallen_max=4\n", kName},
       "PMI: the launcher passes values of at most 3 bytes, 4 are needed"},
  };
  for (const auto& row : table) {
    Launcher launcher(row.answers);
    EXPECT_EQ(share(launcher, true).status().message(), row.message);
  }
}

TEST(Pmi, ADescriptorThatIsNoneIsAnError) {
  const Status status = share_by_pmi(-1, true, "text", deadline_after(now(), seconds(10))).status();
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
}

TEST(Pmi, Lines) {
  const PmiLine line =
      PmiLine::parse("cmd=get_result rc=-1 msg=key hvd not found value=a=b").value();
  EXPECT_EQ(line["cmd"], "get_result");
  EXPECT_EQ(line["rc"], "-1");
  EXPECT_EQ(line["value"], "a=b");
  EXPECT_EQ(line["absent"], "");
  for (const std::string& text :
       {std::string(), std::string("cmd"), std::string("cmd="), std::string("=x"),
        std::string("rc=0"), std::string("cmd=a\0b", 7), std::string(5000, 'a')}) {
    EXPECT_EQ(PmiLine::parse(text).status().code(), Code::kIo) << text.substr(0, 10);
  }
}

}  // namespace
}  // namespace hvd::rendezvous
