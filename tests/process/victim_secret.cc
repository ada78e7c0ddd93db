// SPDX-License-Identifier: Apache-2.0
#include <cstdio>

#include "process/victim.h"

namespace hvd::testing {

// A job with a secret that logs all it can, and waits where the driver wants to look at it.
int play_secret(const Setting& setting) {
  const std::string path = setting.folder + "/log." + std::to_string(setting.rank);
  std::FILE* file = std::fopen(path.c_str(), "w");
  VICTIM_CHECK(file != nullptr);
  const auto write = [](void* data, hvd_log_level, int32_t, const char*, const char* message) {
    std::fprintf(static_cast<std::FILE*>(data), "%s\n", message);
  };
  if (setting.rank != 0) VICTIM_CHECK(hear() == "join");
  Job job;
  VICTIM_OK(
      job.open(setting.text("url", ""), setting.rank, setting.size, setting.options, write, file));
  expect_sum(job, 1000, "sum");
  say("ready");
  VICTIM_CHECK(hear() == "go");
  VICTIM_OK(job.barrier("end"));
  VICTIM_OK(job.close());
  std::fclose(file);
  say("good");
  return 0;
}

}  // namespace hvd::testing
