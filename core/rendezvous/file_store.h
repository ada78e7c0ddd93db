// SPDX-License-Identifier: Apache-2.0
// A store in a directory that all ranks reach, with a file for each key. The directory belongs to
// one job; a later job needs a fresh one, because the entries stay.
#pragma once

#include <memory>
#include <optional>

#include "base/fd.h"
#include "rendezvous/store.h"

namespace hvd::rendezvous {

class FileStore final : public Store {
 public:
  // Creates the directory with mode 0700 if it is missing. A directory that another user owns, or
  // that others may write to, is refused, because these users could answer in the name of a rank.
  static Result<std::shared_ptr<FileStore>> open(const std::string& directory);

  Status set(const std::string& key, const std::string& value) override;
  Result<std::string> get(const std::string& key, Time deadline) override;
  Result<int64_t> add(const std::string& key, int64_t delta) override;
  Status remove(const std::string& key) override;

  FileStore(std::string directory, Fd fd) : directory_(std::move(directory)), fd_(std::move(fd)) {}

 private:
  Result<std::optional<std::string>> read(const std::string& name) const;
  Status write(const std::string& name, const std::string& value) const;
  Result<Fd> lock() const;
  Status error(const std::string& what, int number) const;

  const std::string directory_;
  const Fd fd_;
};

// The file that holds a key: letters, digits, `_`, `-` and escapes only, at most 255 bytes,
// different for different keys.
std::string file_name_of_key(const std::string& key);

}  // namespace hvd::rendezvous
