// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/file_store.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <span>
#include <string_view>
#include <thread>

#include "base/bytes.h"
#include "base/hash.h"
#include "rendezvous/entry.h"

namespace hvd::rendezvous {
namespace {

using namespace std::chrono_literals;

// How long add() waits for the lock. Holders keep it for microseconds, so a longer wait means that
// one was stopped.
constexpr Duration kLockWait = 30s;

// Waits that start short and stay short beside what has been waited already: oversleeping adds to
// the start of every rank.
class BackOff {
 public:
  explicit BackOff(Duration first) : first_(first) {}
  void sleep(Time deadline) {
    const Time time = now();
    const Duration step = std::clamp<Duration>((time - start_) / 8, first_, 20ms);
    std::this_thread::sleep_for(
        std::min<Duration>(step, std::max(deadline - time, Duration::zero())));
  }

 private:
  const Duration first_;
  const Time start_ = now();
};
constexpr Duration kFirstLookAtKey = 1ms;
constexpr Duration kFirstLookAtLock = 100us;

Status write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return io_error("write", errno);
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return {};
}

// Reads to the end; more than kMaxValue bytes is an error, because no store wrote that.
Result<std::string> read_all(int fd) {
  std::string text;
  for (;;) {
    const size_t at = text.size();
    text.resize(at + 4096);
    const ssize_t got = ::read(fd, text.data() + at, 4096);
    if (got < 0 && errno != EINTR) return io_error("read", errno);
    text.resize(at + static_cast<size_t>(std::max<ssize_t>(got, 0)));
    if (got == 0) return text;
    if (text.size() > kMaxValue)
      return Status(Code::kIo, "read: more than " + std::to_string(kMaxValue) + " bytes");
  }
}

Status check_owner(int fd, const std::string& directory) {
  struct stat facts = {};
  if (::fstat(fd, &facts) != 0) return io_error("store file://" + directory + ": stat", errno);
  if (facts.st_uid != ::geteuid()) {
    return {Code::kInvalidArgument, "store file://" + directory + ": directory belongs to user " +
                                        std::to_string(facts.st_uid) +
                                        ", this process runs as user " +
                                        std::to_string(::geteuid())};
  }
  if ((facts.st_mode & (S_IWGRP | S_IWOTH)) == 0) return {};
  char mode[8];
  std::snprintf(mode, sizeof mode, "%04o", static_cast<unsigned>(facts.st_mode & 07777));
  return {Code::kInvalidArgument, "store file://" + directory +
                                      ": others may write to the directory: mode " + mode +
                                      "; allowed: 0700"};
}

}  // namespace

std::string file_name_of_key(const std::string& key) {
  constexpr size_t kLongest = 240;
  constexpr char kHex[] = "0123456789abcdef";
  std::string name = "k.";
  for (const char c : key) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '_' || c == '-';
    if (plain) {
      name += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      name += {'%', kHex[byte >> 4], kHex[byte & 15]};
    }
  }
  if (name.size() <= kLongest) return name;
  // File names end at 255 bytes: the rest becomes a fingerprint of the whole. "%." starts no
  // escape, so no short name looks like this.
  const Fingerprint print = fingerprint(as_byte_span(key));
  char tail[40];
  std::snprintf(tail, sizeof tail, "%%.%016llx%016llx", static_cast<unsigned long long>(print.high),
                static_cast<unsigned long long>(print.low));
  return name.substr(0, 200) + tail;
}

Result<std::shared_ptr<FileStore>> FileStore::open(const std::string& directory) {
  if (::mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST) {
    return io_error("store file://" + directory + ": make directory", errno);
  }
  // A symbolic link could be pointed elsewhere later.
  Fd fd(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd) return io_error("store file://" + directory + ": open", errno);
  HVD_TRY(check_owner(fd.get(), directory));
  return std::make_shared<FileStore>(directory, std::move(fd));
}

Status FileStore::error(const std::string& what, int number) const {
  return io_error("store file://" + directory_ + ": " + what, number);
}

Result<std::optional<std::string>> FileStore::read(const std::string& name) const {
  const Fd file(::openat(fd_.get(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  if (!file) {
    if (errno == ENOENT) return std::optional<std::string>();
    return error("open " + name, errno);
  }
  Result<std::string> text = read_all(file.get());
  if (!text.ok())
    return Status(Code::kIo,
                  "store file://" + directory_ + ": " + name + ": " + text.status().message());
  return std::optional(std::move(text).value());
}

// Writes a file of another name first, so that readers see the old value or the new one, never a
// part.
Status FileStore::write(const std::string& name, const std::string& value) const {
  std::string draft;
  Fd file;
  do {
    // Processes in different containers may have the same id; the clock and O_EXCL keep them apart.
    draft =
        "t." + std::to_string(::getpid()) + "." + std::to_string(now().time_since_epoch().count());
    file = Fd(::openat(fd_.get(), draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  } while (!file && errno == EEXIST);
  if (!file) return error("create " + draft, errno);
  Status status = write_all(file.get(), value);
  if (status.ok() && ::renameat(fd_.get(), draft.c_str(), fd_.get(), name.c_str()) != 0) {
    status = io_error("rename", errno);
  }
  if (status.ok()) return {};
  ::unlinkat(fd_.get(), draft.c_str(), 0);
  return error("write " + name, status.sys_errno());
}

// The lock ends when the returned descriptor closes. Each call opens the file anew, because locks
// belong to the open file: threads of one process exclude each other too.
Result<Fd> FileStore::lock() const {
  Fd file(::openat(fd_.get(), "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file) return error("open lock", errno);
  BackOff back_off(kFirstLookAtLock);
  for (const Time deadline = now() + kLockWait; ::flock(file.get(), LOCK_EX | LOCK_NB) != 0;
       back_off.sleep(deadline)) {
    if (errno != EWOULDBLOCK && errno != EINTR) return error("lock", errno);
    if (now() >= deadline) {
      return Status(Code::kTimeout,
                    "store file://" + directory_ + ": another process has held the lock for 30 s");
    }
  }
  return file;
}

Status FileStore::set(const std::string& key, const std::string& value) {
  HVD_TRY(check_entry(key, value));
  return write(file_name_of_key(key), value);
}

Result<std::string> FileStore::get(const std::string& key, Time deadline) {
  HVD_TRY(check_key(key));
  const Time start = now();
  const std::string name = file_name_of_key(key);
  for (BackOff back_off(kFirstLookAtKey);; back_off.sleep(deadline)) {
    Result<std::optional<std::string>> value = read(name);
    if (!value.ok()) return value.status();
    if (value.value()) return *std::move(value).value();
    if (now() >= deadline) return did_not_appear(key, now() - start);
  }
}

Result<int64_t> FileStore::add(const std::string& key, int64_t delta) {
  HVD_TRY(check_key(key));
  const std::string name = file_name_of_key(key);
  const Result<Fd> held = lock();
  if (!held.ok()) return held.status();
  const Result<std::optional<std::string>> value = read(name);
  if (!value.ok()) return value.status();
  const Result<int64_t> sum = counter_sum(key, value.value(), delta);
  if (sum.ok()) HVD_TRY(write(name, std::to_string(sum.value())));
  // A child forked meanwhile holds the descriptor too; unlocking ends the lock for both.
  ::flock(held.value().get(), LOCK_UN);
  return sum;
}

Status FileStore::remove(const std::string& key) {
  HVD_TRY(check_key(key));
  const std::string name = file_name_of_key(key);
  if (::unlinkat(fd_.get(), name.c_str(), 0) != 0 && errno != ENOENT)
    return error("remove " + name, errno);
  return {};
}

}  // namespace hvd::rendezvous
