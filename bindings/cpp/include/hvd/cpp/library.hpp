// SPDX-License-Identifier: Apache-2.0
// What this installation is and offers, without a job.
#pragma once

#include <hvd/hvd.h>

#include <string>
#include <vector>

#include "call.hpp"

namespace hvd::inline v1 {

// The library's version as HVD_VERSION is for the header, and as text: "1.0.0".
inline std::uint32_t version() { return hvd_version(); }
inline const char* version_string() { return hvd_version_string(); }

// Whether the installation has "shm", "tcp", "gloo", "mpi" and others that hvd.h names.
inline bool has_feature(const std::string& name) {
  return !detail::has_null(name) && hvd_has_feature(name.c_str()) == 1;
}

// A setting that InitOptions::options and the environment can give. Texts are static.
struct OptionInfo {
  const char* name;
  const char* default_value;
  const char* help;
};
inline std::vector<OptionInfo> option_table() {
  std::vector<OptionInfo> table;
  for (std::size_t i = 0; hvd_option_name(i) != nullptr; ++i) {
    table.push_back({hvd_option_name(i), hvd_option_default(i), hvd_option_help(i)});
  }
  return table;
}

// What the metric or histogram of that name tells, in a line of English; nullptr for an unknown
// name. Static.
inline const char* metric_help(const std::string& name) {
  return detail::has_null(name) ? nullptr : hvd_metric_help(name.c_str());
}

}  // namespace hvd::inline v1
