// SPDX-License-Identifier: Apache-2.0
#include "context/context.h"

#include <gtest/gtest.h>

#include <map>

namespace hvd {
namespace {

TEST(Context, OneLineSaysWhatWasFound) {
  const std::map<std::string, std::string> variables = {{"HOROVOD_LOG_LEVEL", "info"},
                                                        {"HOROVOD_HOSTNAME", "n2"}};
  ContextRequest request;
  request.job.environment = [&](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
  std::string said;
  request.log = [&](LogLevel level, int, const char*, const char* text) {
    if (level == LogLevel::kInfo && said.empty()) said = text;
  };
  const auto engine = open_context(std::move(request));
  ASSERT_TRUE(engine.ok()) << engine.status().message();
  EXPECT_EQ(said,
            "rank 0 of 1 (local 0 of 1) on host n2; launcher none; rendezvous none; security auth");
}

}  // namespace
}  // namespace hvd
