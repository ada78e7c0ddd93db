// SPDX-License-Identifier: Apache-2.0
// A plug-in as libhvd sees it: found, checked, and never unloaded, because what it loads does not
// survive that.
#pragma once

#include <cstdint>
#include <string>

#include "backend/plugin/plugin.h"
#include "base/status.h"

namespace hvd::backend::plugin {

// Settings for a plug-in with texts of its own; settings() points into it.
struct LibrarySettings {
  bool one_thread = false;
  int64_t timeout_ms = 30'000;
  std::string interface_name;
  std::string address;
  uint64_t communicator = 0;

  Settings settings() const {
    return {sizeof(Settings),       one_thread ? 1U : 0U, timeout_ms,
            interface_name.c_str(), address.c_str(),      communicator};
  }
};

class Library {
 public:
  // Loads hvd-backend-<name>.so of `folder`, or of the folder that this code was loaded from if
  // that is empty. An error says what was looked for, where, and what was found.
  static Result<Library> load(const std::string& name, const std::string& folder);

  const Table& table() const { return *table_; }
  // Whether the table goes as far as takes_device_memory.
  bool has_device_memory() const;
  const std::string& path() const { return path_; }

  // Loads what the plug-in needs and tells its name and version: "Open MPI v4.1.4".
  Result<std::string> version() const;

 private:
  Library(const Table* table, std::string path) : table_(table), path_(std::move(path)) {}
  const Table* table_;
  std::string path_;
};

// The text buffer of one call, and the status of what it returned.
class ErrorText {
 public:
  ErrorText() { text_[0] = '\0'; }
  operator Text() { return {text_, sizeof text_}; }  // NOLINT(google-explicit-constructor)
  const char* text() const { return text_; }
  // "backend mpi: <text>" if `code` is negative; kPending stays.
  Status status(const char* backend, int32_t code) const;

 private:
  char text_[1024];
};

}  // namespace hvd::backend::plugin
