// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/job_rendezvous.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "unit/time_scale.h"

namespace hvd::rendezvous {
namespace {

using Variables = std::map<std::string, std::string>;
using std::chrono::seconds;

JobRequest request_in(Variables variables) {
  JobRequest request;
  request.environment =
      [variables = std::move(variables)](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
  return request;
}

Status no_mpi(const Place&, std::string*) { return Status(Code::kUnsupported, "no MPI here"); }

Result<JobRendezvous> meet(JobRequest request, const Options& options,
                           std::shared_ptr<const Logger> log, const MpiBroadcast& by_mpi = no_mpi) {
  return find_rendezvous(request, options, secure::Protection(), deadline_after(now(), seconds(10)),
                         std::move(log), by_mpi);
}

Result<JobRendezvous> rendezvous_in(const Variables& variables,
                                    std::shared_ptr<const Logger> log = std::make_shared<Logger>(),
                                    const std::string& ranks = "") {
  Options options;
  options.ranks = ranks;
  return meet(request_in(variables), options, std::move(log));
}

Variables torchrun(int rank, const std::string& restart, int size = 2) {
  return {{"TORCHELASTIC_RUN_ID", "meeting-" + std::to_string(::getpid())},
          {"TORCHELASTIC_RESTART_COUNT", restart},
          {"RANK", std::to_string(rank)},
          {"WORLD_SIZE", std::to_string(size)},
          {"LOCAL_RANK", std::to_string(rank)},
          {"LOCAL_WORLD_SIZE", std::to_string(size)},
          {"MASTER_ADDR", "somewhere"},
          {"MASTER_PORT", "29500"}};
}

TEST(JobRendezvous, RanksOfOneHostMeetWithoutPortOrSecretAgainAndAgain) {
  for (int again = 0; again < 3; ++again) {
    std::thread other([] {
      const Result<JobRendezvous> met = rendezvous_in(torchrun(1, "0"));
      ASSERT_TRUE(met.ok()) << met.status().message();
      EXPECT_EQ(met.value().store->get("greeting", deadline_after(now(), seconds(10))).value(),
                "hello");
    });
    const Result<JobRendezvous> met = rendezvous_in(torchrun(0, "0"));
    ASSERT_TRUE(met.ok()) << met.status().message();
    EXPECT_EQ(met.value().size, 2);
    EXPECT_EQ(met.value().launcher, "torchrun");
    EXPECT_EQ(met.value().where.substr(0, 15), "unix://meeting-");
    EXPECT_EQ(met.value().protection.keyring, nullptr);
    EXPECT_TRUE(met.value().store->set("greeting", "hello").ok());
    other.join();
  }
}

TEST(JobRendezvous, AnEarlierStartOfAJobIsAnotherJob) {
  const Result<JobRendezvous> first = rendezvous_in(torchrun(0, "0"));
  const Result<JobRendezvous> second = rendezvous_in(torchrun(0, "1"));
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_NE(first.value().where, second.value().where);
  EXPECT_NE(first.value().job, second.value().job);
}

TEST(JobRendezvous, SubsetsOfOneHostNeedNoRankOutsideThem) {
  const auto join = [](int rank, const std::string& ranks) {
    return rendezvous_in(torchrun(rank, "0", 5), std::make_shared<Logger>(), ranks);
  };
  // Launched rank 0 never comes.
  std::map<int, Result<JobRendezvous>> met;
  std::mutex mutex;
  std::vector<std::thread> threads;
  for (const auto& [rank, ranks] : {std::pair(1, "1,4"), {4, "4,1"}, {2, "2,3"}, {3, "2,3"}}) {
    threads.emplace_back([&, rank = rank, ranks = std::string(ranks)] {
      Result<JobRendezvous> one = join(rank, ranks);
      std::lock_guard<std::mutex> lock(mutex);
      met.emplace(rank, std::move(one));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (auto& [rank, one] : met) {
    ASSERT_TRUE(one.ok()) << "rank " << rank << ": " << one.status().message();
    EXPECT_EQ(one.value().size, 2);
    EXPECT_EQ(one.value().rank, rank == 1 || rank == 2 ? 0 : 1);
    EXPECT_TRUE(one.value().store->set("from" + std::to_string(rank), "here").ok());
  }
  const auto sees = [&](int rank, int other) {
    return met.at(rank).value().store->get("from" + std::to_string(other), now()).ok();
  };
  EXPECT_TRUE(sees(1, 4) && sees(4, 1) && sees(2, 3) && sees(3, 2));
  EXPECT_FALSE(sees(1, 2) || sees(4, 3) || sees(2, 1) || sees(3, 4));
  EXPECT_EQ(join(1, "2,3").status().message(),
            "init: option ranks: this is rank 1, which 2,3 does not list");
}

TEST(JobRendezvous, ALauncherThatOffersNothingIsRefusedWithTheWaysOut) {
  const Status status = rendezvous_in({{"PALS_RANKID", "0"}, {"PMI_SIZE", "8"}}).status();
  EXPECT_EQ(status.code(), Code::kUnsupported);
  EXPECT_EQ(status.message(),
            "init: PALS offers 8 ranks no way to meet; set HOROVOD_RENDEZVOUS to "
            "file:///folder-of-all-hosts, or to "
            "tcp://host:port/job together with HOROVOD_SECRET_FILE");
}

TEST(JobRendezvous, SeveralHostsWithoutASecretAreRefusedAtOnce) {
  const Time start = now();
  const Status status = rendezvous_in({{"RANK", "1"},
                                       {"WORLD_SIZE", "2"},
                                       {"MASTER_ADDR", "192.0.2.7"},
                                       {"MASTER_PORT", "29500"}})
                            .status();
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_EQ(
      status.message().substr(0, 86),
      "store tcp://192.0.2.7:29501-29516/29500: others can reach 192.0.2.7:29501, and no secr");
  EXPECT_LT(now() - start, hvd::testing::scaled(seconds(5)));
}

TEST(JobRendezvous, UnderMpirunRankZeroPassesAddressAndSecretOnOnce) {
  const Variables variables = {{"PMIX_NAMESPACE", "mpirun-" + std::to_string(::getpid())},
                               {"OMPI_COMM_WORLD_RANK", "0"},
                               {"OMPI_COMM_WORLD_SIZE", "2"},
                               {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
                               {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}};
  Options options;
  options.network_interfaces = "lo";
  std::vector<std::string> passed;
  const MpiBroadcast by_mpi = [&](const Place& place, std::string* text) {
    EXPECT_EQ(place.size, 2);
    passed.push_back(*text);
    return Status();
  };
  for (int context = 0; context < 2; ++context) {
    const Result<JobRendezvous> met =
        meet(request_in(variables), options, std::make_shared<Logger>(), by_mpi);
    ASSERT_TRUE(met.ok()) << met.status().message();
    ASSERT_EQ(passed.size(), 1u);
    EXPECT_EQ(passed[0], met.value().where + ";" + met.value().protection.keyring->secret().text());
  }
}

TEST(JobRendezvous, TheCallersWordCountsMoreThanTheLaunchers) {
  JobRequest request = request_in(torchrun(1, "0"));
  request.rank = 0;
  request.size = 1;
  const Result<JobRendezvous> met = meet(std::move(request), Options(), std::make_shared<Logger>());
  ASSERT_TRUE(met.ok());
  EXPECT_EQ(met.value().size, 1);
  EXPECT_TRUE(met.value().in_process);
}

TEST(JobRendezvous, WhatTheUserMayNotExpectIsAWarning) {
  std::string said;
  const auto log = std::make_shared<Logger>(
      [&](LogLevel, int, const char*, const char* text) { said = text; }, LogLevel::kWarn);
  ASSERT_TRUE(rendezvous_in({{"JOB_COMPLETION_INDEX", "3"}}, log).ok());
  EXPECT_EQ(said, "JOB_COMPLETION_INDEX is set and HOROVOD_SIZE is not: a job of one rank");
}

}  // namespace
}  // namespace hvd::rendezvous
