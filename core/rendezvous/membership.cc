// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/membership.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <charconv>
#include <sstream>
#include <utility>

#include "base/bell.h"
#include "rendezvous/env.h"

namespace hvd::rendezvous {
namespace {

constexpr char kPath[] = "HOROVOD_MEMBERSHIP";
constexpr char kWorker[] = "HOROVOD_WORKER";
constexpr char kSlot[] = "HOROVOD_LOCAL_RANK";
constexpr size_t kLongestLine = 1 << 20;
constexpr size_t kAtOnce = 4096;

Status unreachable(const std::string& what, int number) {
  return Status(Code::kIo, "init: the launcher of this elastic job cannot be reached: " + what)
      .with_errno(number);
}

// Through the folder's descriptor, because the address of a Unix socket has room for 107 bytes.
Result<Fd> connect_to(const std::string& path) {
  const size_t slash = path.rfind('/');
  const Fd folder(::open(path.substr(0, slash + 1).c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!folder) return unreachable(path, errno);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string near =
      "/proc/self/fd/" + std::to_string(folder.get()) + "/" + path.substr(slash + 1);
  if (near.size() >= sizeof address.sun_path) return unreachable(path, ENAMETOOLONG);
  near.copy(address.sun_path, near.size());
  Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket) return unreachable(path, errno);
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return unreachable(path, errno);
  return socket;
}

// "ID:RANK,RANK..."
bool read_set(const std::string& word, Epoch& epoch) {
  std::istringstream text(word);
  int32_t id = 0;
  char mark = 0;
  std::vector<int> ranks;
  text >> id >> mark;
  for (int rank = 0; (mark == ':' || mark == ',') && text >> rank; text >> mark) {
    if (rank < 0 || rank >= epoch.size) return false;
    ranks.push_back(rank);
  }
  const bool read = text.eof() && id > 0 && id < epoch.next_set_id && !ranks.empty();
  return read && epoch.sets.emplace(id, std::move(ranks)).second;
}

// "begin EPOCH RANK SIZE SYNCHRONIZE URL NEXT_ID ID:RANKS..."
bool read_begin(const std::string& line, Epoch& epoch) {
  std::istringstream words(line);
  std::string begin;
  int synchronize = 0;
  words >> begin >> epoch.number >> epoch.rank >> epoch.size >> synchronize >> epoch.url >>
      epoch.next_set_id;
  epoch.synchronize = synchronize != 0;
  if (words.fail() || begin != "begin" || epoch.number <= 0 || epoch.size <= 0 || epoch.rank < 0 ||
      epoch.rank >= epoch.size)
    return false;
  for (std::string set; words >> set;) {
    if (!read_set(set, epoch)) return false;
  }
  return true;
}

}  // namespace

bool Membership::is_elastic(const Environment& environment) {
  return !environment(kPath).value_or("").empty();
}

Result<std::shared_ptr<Membership>> Membership::ask(const Environment& environment,
                                                    int64_t position, Time deadline) {
  const Result<int> worker =
      read_number(kWorker, environment(kWorker).value_or(""), 0, kLargestSize);
  if (!worker.ok()) return worker.status();
  const std::string given = environment(kSlot).value_or("");
  const Result<int> slot = given.empty() ? -1 : read_number(kSlot, given, 0, kLargestSize);
  if (!slot.ok()) return slot.status();
  Result<Fd> socket = connect_to(environment(kPath).value_or(""));
  if (!socket.ok()) return socket.status();
  Fd bell(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!bell) return Status(Code::kIo, "init: eventfd").with_errno(errno);
  const std::shared_ptr<Membership> asking(
      new Membership(std::move(socket).value(), std::move(bell), worker.value(), slot.value()));
  HVD_TRY(asking->say("ask " + std::to_string(worker.value()) + " " + std::to_string(position)));
  for (;;) {
    Result<std::string> line = asking->hear(deadline);
    if (!line.ok()) return line.status();
    const std::string& said = line.value();
    if (said.starts_with("refuse ")) {
      return Status(Code::kDismissed,
                    "init: this process has no place in the job any more: " + said.substr(7));
    }
    if (said.starts_with("expel ")) {
      return Status(Code::kDismissed, "init: this process was expelled from the job: " +
                                          said.substr(6) + "; the others have gone on without it")
          .with_errno(ETIMEDOUT);
    }
    if (said.starts_with("changed ") || said.starts_with("lost ") || said.starts_with("expelled "))
      continue;  // before the epoch
    if (read_begin(said, asking->epoch_)) return asking;
    return Status(Code::kIo, "init: the launcher of this elastic job said " + quoted(said));
  }
}

Status Membership::catch_up() {
  for (;;) {
    Result<std::string> line = hear(now());
    if (!line.ok()) return line.status().code() == Code::kTimeout ? Status() : line.status();
    MutexLock lock(mutex_);
    const std::string& said = line.value();
    if (said.starts_with("lost ")) lost_ = "worker " + said.substr(5) + " ended";
    if (said.starts_with("expelled ")) note_expelled(said.substr(9));
    if (!said.starts_with("changed ")) continue;
    uint32_t flags = 0;
    std::from_chars(said.data() + 8, said.data() + said.size(), flags);
    changes_ |= flags;
  }
}

Result<uint32_t> Membership::changes() {
  HVD_TRY(catch_up());
  MutexLock lock(mutex_);
  return changes_;
}

Status Membership::lost() {
  HVD_TRY(catch_up());
  MutexLock lock(mutex_);
  if (lost_.empty()) return {};
  return {Code::kPeerLost, lost_ + " while the members of the job met"};
}

// "RANK CAUSE"
void Membership::note_expelled(const std::string& said) {
  int rank = -1;
  const auto [end, error] = std::from_chars(said.data(), said.data() + said.size(), rank);
  if (error != std::errc() || rank < 0) return;
  const std::string cause(end, said.data() + said.size());
  expelled_.emplace(rank, cause.substr(std::min<size_t>(1, cause.size())));
  lost_ = "rank " + std::to_string(rank) + cause;
  ring(bell_.get());
}

Result<std::map<int, std::string>> Membership::expelled() {
  const Status heard = catch_up();
  MutexLock lock(mutex_);
  if (!heard.ok() && expelled_.empty()) return heard;
  uint64_t count = 0;
  (void)!::read(bell_.get(), &count, sizeof count);
  return std::exchange(expelled_, {});
}

Status Membership::leave() { return say("leave " + std::to_string(worker_)); }

Status Membership::tell_of_set(int32_t id, const std::vector<int>& ranks) {
  std::string line =
      (ranks.empty() ? "unset " : "set ") + std::to_string(worker_) + " " + std::to_string(id);
  for (size_t i = 0; i < ranks.size(); ++i) line += (i == 0 ? " " : ",") + std::to_string(ranks[i]);
  return say(line);
}

Status Membership::say(const std::string& line) {
  const std::string text = line + "\n";
  MutexLock lock(mutex_);
  for (size_t sent = 0; sent < text.size();) {
    const ssize_t count =
        ::send(socket_.get(), text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return unreachable("send", errno);
    sent += static_cast<size_t>(count);
  }
  return {};
}

Result<std::string> Membership::hear(Time deadline) {
  for (;;) {
    MutexLock lock(mutex_);
    if (const size_t end = arrived_.find('\n'); end != std::string::npos) {
      std::string line = arrived_.substr(0, end);
      arrived_.erase(0, end + 1);
      return line;
    }
    if (arrived_.size() > kLongestLine) return unreachable("a line without an end", EPROTO);
    char bytes[kAtOnce];
    const ssize_t count = ::recv(socket_.get(), bytes, sizeof bytes, MSG_DONTWAIT);
    if (count > 0) {
      arrived_.append(bytes, static_cast<size_t>(count));
      continue;
    }
    if (count == 0) return unreachable("it has ended", ECONNRESET);
    if (errno == EINTR) continue;
    if (errno != EAGAIN && errno != EWOULDBLOCK) return unreachable("receive", errno);
    const Time current = now();
    if (current >= deadline) return Status(Code::kTimeout, "init: waited for the next epoch");
    const Duration left = std::min<Duration>(deadline - current, std::chrono::hours(1));
    pollfd news{socket_.get(), POLLIN, 0};
    lock.unlock();
    ::poll(&news, 1, static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(left).count()));
  }
}

}  // namespace hvd::rendezvous
