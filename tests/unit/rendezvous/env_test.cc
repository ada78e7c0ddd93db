// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/env.h"

#include <gtest/gtest.h>

#include <map>

namespace hvd::rendezvous {
namespace {

Result<Place> place_in(std::map<std::string, std::string> variables) {
  return place_from_environment([&](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
}

TEST(Environment, WithoutVariablesAJobOfOne) {
  for (const auto& variables :
       {std::map<std::string, std::string>{},
        {{"HOROVOD_RANK", ""}, {"HOROVOD_SIZE", ""}, {"HOROVOD_RENDEZVOUS", ""}}}) {
    const Place place = place_in(variables).value();
    EXPECT_EQ(place.rank, 0);
    EXPECT_EQ(place.size, 1);
    EXPECT_EQ(place.url, "");
    EXPECT_EQ(place.host, "");
  }
}

TEST(Environment, ACompletePlace) {
  const Place place = place_in({{"HOROVOD_RANK", "3"},
                                {"HOROVOD_SIZE", "4"},
                                {"HOROVOD_RENDEZVOUS", "file:///tmp/job"},
                                {"HOROVOD_HOSTNAME", "node-1"}})
                          .value();
  EXPECT_EQ(place.rank, 3);
  EXPECT_EQ(place.size, 4);
  EXPECT_EQ(place.url, "file:///tmp/job");
  EXPECT_EQ(place.host, "node-1");
}

TEST(Environment, AHostAloneIsNoPlace) {
  const Place place = place_in({{"HOROVOD_HOSTNAME", "node-1"}}).value();
  EXPECT_EQ(place.size, 1);
  EXPECT_EQ(place.host, "node-1");
}

struct Bad {
  const char* rank;
  const char* size;
  const char* url;
  const char* message;
};

TEST(Environment, ServersOfGloosOwnAreNotUsed) {
  const Result<Place> place = place_in(
      {{"HOROVOD_RANK", "1"}, {"HOROVOD_SIZE", "2"}, {"HOROVOD_GLOO_RENDEZVOUS_ADDR", "h"}});
  ASSERT_FALSE(place.ok());
  EXPECT_NE(place.status().message().find(
                "HOROVOD_GLOO_RENDEZVOUS_ADDR is not used here: set HOROVOD_RENDEZVOUS"),
            std::string::npos);
}

TEST(Environment, BadPlacesAreErrorsWithNamesAndValues) {
  const Bad table[] = {
      {"1", "", "",
       "environment: missing HOROVOD_SIZE HOROVOD_RENDEZVOUS, although set: HOROVOD_RANK"},
      {"", "2", "",
       "environment: missing HOROVOD_RANK HOROVOD_RENDEZVOUS, although set: HOROVOD_SIZE"},
      {"", "", "mem://a",
       "environment: missing HOROVOD_RANK HOROVOD_SIZE, although set: HOROVOD_RENDEZVOUS"},
      {"1", "2", "",
       "environment: missing HOROVOD_RENDEZVOUS, although set: HOROVOD_RANK HOROVOD_SIZE"},
      {"1", "", "mem://a",
       "environment: missing HOROVOD_SIZE, although set: HOROVOD_RANK HOROVOD_RENDEZVOUS"},
      {"", "2", "mem://a",
       "environment: missing HOROVOD_RANK, although set: HOROVOD_SIZE HOROVOD_RENDEZVOUS"},
      {"2", "2", "mem://a",
       "HOROVOD_RANK: value \"2\" is not allowed; allowed: integers from 0 to 1 because "
       "HOROVOD_SIZE is 2"},
      {"-1", "2", "mem://a",
       "HOROVOD_RANK: value \"-1\" is not allowed; allowed: integers from 0 to 1 because "
       "HOROVOD_SIZE is 2"},
      {"one", "2", "mem://a",
       "HOROVOD_RANK: value \"one\" is not allowed; allowed: integers from 0 to 1 because "
       "HOROVOD_SIZE is 2"},
      {"0", "0", "mem://a",
       "HOROVOD_SIZE: value \"0\" is not allowed; allowed: integers from 1 to 1048576"},
      {"0", "2x", "mem://a",
       "HOROVOD_SIZE: value \"2x\" is not allowed; allowed: integers from 1 to 1048576"},
      {"0", "99999999999", "mem://a",
       "HOROVOD_SIZE: value \"99999999999\" is not allowed; allowed: integers from 1 to 1048576"},
      {"0", "2", "mem://",
       "HOROVOD_RENDEZVOUS: rendezvous \"mem://\": name is not 1 to 100 letters, digits, dots, "
       "underscores or hyphens"},
      {"0", "2", "env:", "HOROVOD_RENDEZVOUS: \"env:\" leads back to the environment"},
  };
  for (const Bad& row : table) {
    const Status status = place_in({{"HOROVOD_RANK", row.rank},
                                    {"HOROVOD_SIZE", row.size},
                                    {"HOROVOD_RENDEZVOUS", row.url}})
                              .status();
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    EXPECT_EQ(status.message(), row.message);
  }
}

}  // namespace
}  // namespace hvd::rendezvous
