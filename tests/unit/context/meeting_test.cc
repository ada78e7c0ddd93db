// SPDX-License-Identifier: Apache-2.0
#include "context/meeting.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <map>
#include <thread>

#include "context/context.h"

namespace hvd {
namespace {

using Variables = std::map<std::string, std::string>;
using std::chrono::seconds;

ContextRequest request_in(Variables variables) {
  ContextRequest request;
  request.environment = [variables = std::move(variables)](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
  return request;
}

Result<Meeting> meeting_in(const Variables& variables, std::shared_ptr<const Logger> log = std::make_shared<Logger>()) {
  ContextRequest request = request_in(variables);
  return find_meeting(request, Options(), Protection(), deadline_after(now(), seconds(10)), std::move(log));
}

Variables torchrun(int rank, const std::string& restart) {
  return {{"TORCHELASTIC_RUN_ID", "meeting-" + std::to_string(::getpid())},
          {"TORCHELASTIC_RESTART_COUNT", restart},
          {"RANK", std::to_string(rank)},
          {"WORLD_SIZE", "2"},
          {"LOCAL_RANK", std::to_string(rank)},
          {"LOCAL_WORLD_SIZE", "2"},
          {"MASTER_ADDR", "somewhere"},
          {"MASTER_PORT", "29500"}};
}

TEST(Meeting, RanksOfOneHostMeetWithoutPortOrSecretAgainAndAgain) {
  for (int again = 0; again < 3; ++again) {
    std::thread other([] {
      const Result<Meeting> meeting = meeting_in(torchrun(1, "0"));
      ASSERT_TRUE(meeting.ok()) << meeting.status().message();
      EXPECT_EQ(meeting.value().store->get("greeting", deadline_after(now(), seconds(10))).value(), "hello");
    });
    const Result<Meeting> meeting = meeting_in(torchrun(0, "0"));
    ASSERT_TRUE(meeting.ok()) << meeting.status().message();
    EXPECT_EQ(meeting.value().size, 2);
    EXPECT_EQ(meeting.value().launcher, "torchrun");
    EXPECT_EQ(meeting.value().where.substr(0, 15), "unix://meeting-");
    EXPECT_EQ(meeting.value().protection.keyring, nullptr);
    EXPECT_TRUE(meeting.value().store->set("greeting", "hello").ok());
    other.join();
  }
}

TEST(Meeting, AnEarlierStartOfAJobIsAnotherJob) {
  const Result<Meeting> first = meeting_in(torchrun(0, "0"));
  const Result<Meeting> second = meeting_in(torchrun(0, "1"));
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_NE(first.value().where, second.value().where);
  EXPECT_NE(first.value().job, second.value().job);
}

TEST(Meeting, ALauncherThatOffersNothingIsRefusedWithTheWaysOut) {
  const Status status = meeting_in({{"PALS_RANKID", "0"}, {"PMI_SIZE", "8"}}).status();
  EXPECT_EQ(status.code(), Code::kUnsupported);
  EXPECT_EQ(status.message(),
            "init: PALS offers 8 ranks no way to meet; set HOROVOD_RENDEZVOUS to file:///folder-of-all-hosts, or to "
            "tcp://host:port/job together with HOROVOD_SECRET_FILE");
}

TEST(Meeting, SeveralHostsWithoutASecretAreRefusedAtOnce) {
  const Time start = now();
  const Status status =
      meeting_in({{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "192.0.2.7"}, {"MASTER_PORT", "29500"}}).status();
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_EQ(status.message().substr(0, 86),
            "store tcp://192.0.2.7:29501-29516/29500: others can reach 192.0.2.7:29501, and no secr");
  EXPECT_LT(now() - start, seconds(5));
}

TEST(Meeting, TheCallersWordCountsMoreThanTheLaunchers) {
  ContextRequest request = request_in(torchrun(1, "0"));
  request.rank = 0;
  request.size = 1;
  const Result<Meeting> meeting =
      find_meeting(request, Options(), Protection(), deadline_after(now(), seconds(10)), std::make_shared<Logger>());
  ASSERT_TRUE(meeting.ok());
  EXPECT_EQ(meeting.value().size, 1);
  EXPECT_TRUE(meeting.value().in_process);
}

TEST(Meeting, WhatTheUserMayNotExpectIsAWarning) {
  std::string said;
  const auto log =
      std::make_shared<Logger>([&](LogLevel, int, const char*, const char* text) { said = text; }, LogLevel::kWarn);
  ASSERT_TRUE(meeting_in({{"JOB_COMPLETION_INDEX", "3"}}, log).ok());
  EXPECT_EQ(said, "JOB_COMPLETION_INDEX is set and HOROVOD_SIZE is not: a job of one rank");
}

TEST(Meeting, OneLineSaysWhatWasFound) {
  std::string said;
  ContextRequest request = request_in({{"HOROVOD_LOG_LEVEL", "info"}, {"HOROVOD_HOSTNAME", "n2"}});
  request.log = [&](LogLevel level, int, const char*, const char* text) {
    if (level == LogLevel::kInfo && said.empty()) said = text;
  };
  const auto engine = open_context(std::move(request));
  ASSERT_TRUE(engine.ok()) << engine.status().message();
  EXPECT_EQ(said, "rank 0 of 1 (local 0 of 1) on host n2; launcher none; rendezvous none; security auth");
}

}  // namespace
}  // namespace hvd
