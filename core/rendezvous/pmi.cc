// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/pmi.h"

#include <dlfcn.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "base/fork_guard.h"
#include "rendezvous/env.h"

namespace hvd::rendezvous {
namespace {

constexpr char kKey[] = "hvd";

// An MPI of MPICH's kind that has been started in this process has begun the protocol and ends it.
bool mpi_was_started() {
  for (const char* name : {"libmpi.so.12", "libmpich.so.12"}) {
    void* library = ::dlopen(name, RTLD_LAZY | RTLD_NOLOAD);
    if (library == nullptr) continue;
    const auto initialized = reinterpret_cast<int (*)(int*)>(::dlsym(library, "MPI_Initialized"));
    int started = 0;
    if (initialized != nullptr) initialized(&started);
    ::dlclose(library);
    if (started != 0) return true;
  }
  return false;
}

class Client {
 public:
  Client(int fd, Time deadline) : fd_(fd), deadline_(deadline) {}

  // Sends a line and reads one. An error unless that is `answer` and reports no failure.
  Result<PmiLine> ask(const std::string& line, std::string_view answer) {
    HVD_TRY(send(line + "\n"));
    const Result<std::string> text = receive();
    if (!text.ok()) return text.status();
    Result<PmiLine> reply = PmiLine::parse(text.value());
    if (!reply.ok()) return reply;
    const std::string_view code = reply.value()["rc"];
    if (reply.value()["cmd"] == answer && (code.empty() || code == "0")) return reply;
    return Status(Code::kIo,
                  "PMI: the launcher answers " + quoted(text.value()) + " to " + quoted(line));
  }

 private:
  Status wait_for(short events) {
    pollfd watched{fd_, events, 0};
    for (;;) {
      const int ready = ::poll(&watched, 1, poll_timeout(deadline_));
      if (ready > 0) return {};
      if (ready < 0 && errno != EINTR) return io_error("PMI: poll", errno);
      if (ready == 0 && now() >= deadline_)
        return {Code::kTimeout, "PMI: the launcher does not answer; not every rank is here"};
    }
  }

  Status send(std::string_view text) {
    while (!text.empty()) {
      HVD_TRY(wait_for(POLLOUT));
      const ssize_t sent = ::send(fd_, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent < 0 && (errno == EAGAIN || errno == EINTR)) continue;
      if (sent < 0) return io_error("PMI: send to the launcher", errno);
      text.remove_prefix(static_cast<size_t>(sent));
    }
    return {};
  }

  // Byte by byte, because the bytes behind the line can be for somebody else in this process.
  Result<std::string> receive() {
    std::string line;
    while (line.size() < PmiLine::kLongest) {
      HVD_TRY(wait_for(POLLIN));
      char c = 0;
      const ssize_t got = ::recv(fd_, &c, 1, MSG_DONTWAIT);
      if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
      if (got < 0) return io_error("PMI: receive from the launcher", errno);
      if (got == 0) return Status(Code::kIo, "PMI: the launcher has closed the connection");
      if (c == '\n') return line;
      line += c;
    }
    return Status(Code::kIo, "PMI: the launcher sends a line of more than " +
                                 std::to_string(line.size()) + " bytes");
  }

  static int poll_timeout(Time deadline) {
    if (deadline == kNever) return -1;
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - now()).count() + 1;
    return static_cast<int>(std::clamp<int64_t>(left, 0, 60000));
  }

  const int fd_;
  const Time deadline_;
};

}  // namespace

Result<PmiLine> PmiLine::parse(std::string_view line) {
  const auto bad = [&] {
    return Status(Code::kIo,
                  "PMI: the launcher sends " + quoted(std::string(line)) + ", which is no answer");
  };
  if (line.size() > kLongest || line.find('\0') != std::string_view::npos) return bad();
  PmiLine parsed;
  for (std::string_view left = line; !left.empty();) {
    const std::string_view word = left.substr(0, left.find(' '));
    left.remove_prefix(std::min(word.size() + 1, left.size()));
    if (word.empty()) continue;
    const size_t equals = word.find('=');
    // Texts for people ("msg=no such key") have blanks.
    if (equals == std::string_view::npos || equals == 0) continue;
    parsed.fields_.emplace_back(word.substr(0, equals), word.substr(equals + 1));
  }
  if (parsed["cmd"].empty()) return bad();
  return parsed;
}

std::string_view PmiLine::operator[](std::string_view name) const {
  for (const auto& [field, value] : fields_) {
    if (field == name) return value;
  }
  return {};
}

Result<std::string> share_by_pmi(int fd, bool is_first, const std::string& text, Time deadline) {
  if (fd < 0)
    return Status(Code::kInvalidArgument, "PMI: there is no descriptor " + std::to_string(fd));
  Client client(fd, deadline);
  if (!mpi_was_started()) {
    const Result<PmiLine> version =
        client.ask("cmd=init pmi_version=1 pmi_subversion=1", "response_to_init");
    if (!version.ok()) return version.status();
  }
  const Result<PmiLine> limits = client.ask("cmd=get_maxes", "maxes");
  if (!limits.ok()) return limits.status();
  const Result<PmiLine> space = client.ask("cmd=get_my_kvsname", "my_kvsname");
  if (!space.ok()) return space.status();
  const std::string name(space.value()["kvsname"]);
  if (is_first) {
    const Result<int> most =
        read_number("PMI vallen_max", std::string(limits.value()["vallen_max"]), 1, 1 << 30);
    if (!most.ok()) return Status(Code::kIo, most.status().message());
    if (text.size() >= static_cast<size_t>(most.value())) {
      return Status(Code::kUnsupported, "PMI: the launcher passes values of at most " +
                                            std::to_string(most.value() - 1) + " bytes, " +
                                            std::to_string(text.size()) + " are needed");
    }
    const Result<PmiLine> put =
        client.ask("cmd=put kvsname=" + name + " key=" + kKey + " value=" + text, "put_result");
    if (!put.ok()) return put.status();
  }
  const Result<PmiLine> all_here = client.ask("cmd=barrier_in", "barrier_out");
  if (!all_here.ok()) return all_here.status();
  const Result<PmiLine> value =
      client.ask("cmd=get kvsname=" + name + " key=" + kKey, "get_result");
  if (!value.ok()) return value.status();
  return std::string(value.value()["value"]);
}

void end_pmi_at_exit(int fd) {
  struct Farewell {
    int fd;
    ForkGuard fork_guard;
  };
  static Farewell* farewell = nullptr;
  if (farewell != nullptr) return;
  farewell = new Farewell{fd, {}};
  std::atexit([] {
    if (farewell->fork_guard.forked() || mpi_was_started()) return;
    static_cast<void>(Client(farewell->fd, deadline_after(now(), std::chrono::seconds(2)))
                          .ask("cmd=finalize", "finalize_ack"));
  });
}

}  // namespace hvd::rendezvous
