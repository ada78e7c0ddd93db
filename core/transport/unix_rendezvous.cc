// SPDX-License-Identifier: Apache-2.0
#include "transport/unix_rendezvous.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <sstream>
#include <thread>

#include "transport/death.h"
#include "transport/host_shared_memory.h"
#include "transport/unix_record.h"

namespace hvd::transport {
namespace {

constexpr Duration kHelloTime = std::chrono::seconds(5);
constexpr size_t kMostStrangers = 64;
constexpr size_t kTokenBytes = 32;

struct Hello {
  uint64_t magic = 0x6876642d68656c6f;
  uint32_t protocol = kProtocolVersion;
  int32_t member = -1;
  std::array<char, kTokenBytes> token{};
};
struct Belongings {  // comes with the bell and, if has_pidfd, the pidfd
  int32_t member = -1;
  uint32_t has_pidfd = 0;
};
// The facts of several members, handed on together: a record for each would make the start of many
// ranks twice as long. Comes with the descriptors of those members, one after another.
struct Share {
  static constexpr size_t kMost = kMostFds / 2;
  int32_t first = 0;
  int32_t count = 0;
  std::array<uint8_t, kMost> has_pidfd{};
};
struct Welcome {  // comes with the memfd
  std::array<char, kTokenBytes> token{};
  int32_t members = 0;
  int32_t reserved = 0;
};

std::array<char, kTokenBytes> token_bytes(const std::string& text) {
  std::array<char, kTokenBytes> bytes{};
  std::memcpy(bytes.data(), text.data(), std::min(text.size(), bytes.size()));
  return bytes;
}

// Takes the same time wherever the first difference is.
bool same_token(const std::array<char, kTokenBytes>& given, const std::string& expected) {
  const std::array<char, kTokenBytes> wanted = token_bytes(expected);
  unsigned difference = 0;
  for (size_t i = 0; i < kTokenBytes; ++i)
    difference |= static_cast<unsigned char>(given[i] ^ wanted[i]);
  return difference == 0;
}

socklen_t fill_address(const std::string& name, sockaddr_un& address) {
  address = {};
  address.sun_family = AF_UNIX;
  const size_t length = std::min(name.size(), sizeof address.sun_path - 1);
  std::memcpy(address.sun_path + 1, name.data(), length);  // a leading zero byte makes it abstract
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
}

bool same_user(int socket) {
  ucred who{};
  socklen_t size = sizeof who;
  return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &who, &size) == 0 && who.uid == ::geteuid();
}

Status during_rendezvous(const RendezvousOptions& options, int member, const Status& why) {
  const int rank = options.ranks[static_cast<size_t>(member)];
  return Status(why.code(),
                "init: rank " + std::to_string(rank) + " on this host: " + why.message())
      .with_rank(rank)
      .with_errno(why.sys_errno());
}

// The first member's state while the others arrive.
class Reception {
 public:
  Reception(Fd listener, const RendezvousPlace& place, const RendezvousOptions& options)
      : listener_(std::move(listener)), place_(place), options_(options) {
    met_.bells.resize(options.ranks.size());
    met_.pidfds.resize(options.ranks.size());
    met_.sockets.resize(options.ranks.size());
  }

  Result<LocalRendezvous> run(Fd memory) {
    HVD_TRY(bring_own());
    while (arrived_ < options_.ranks.size()) {
      HVD_TRY(wait());
      HVD_TRY(accept_all());
      for (Guest& guest : guests_) {
        if (guest.socket) HVD_TRY(listen_to(guest));
      }
      std::erase_if(guests_, [](const Guest& guest) {
        return !guest.socket || (guest.member < 0 && now() > guest.since + kHelloTime);
      });
    }
    for (size_t member = 1; member < options_.ranks.size(); ++member) {
      const Status sent = hand_out(static_cast<int>(member), memory.get());
      // Others may have been served and gone on already. Whoever watches this socket sees that its
      // owner is gone, and that tells them who it was; giving up here would only tell them that
      // this rank is.
      if (sent.code() == Code::kPeerLost) continue;
      if (!sent.ok()) return during_rendezvous(options_, static_cast<int>(member), sent);
    }
    met_.memory = std::move(memory);
    return std::move(met_);
  }

  // Ranks of the job that have not come.
  std::vector<int> missing() const {
    std::vector<int> ranks;
    for (size_t member = 0; member < options_.ranks.size(); ++member) {
      if (!met_.bells[member]) ranks.push_back(options_.ranks[member]);
    }
    return ranks;
  }

 private:
  struct Guest {
    Fd socket;
    Time since;
    int member = -1;  // known after its hello
  };

  Status bring_own() {
    Result<Fd> bell = new_bell();
    if (!bell.ok()) return bell.status();
    met_.bells[0] = std::move(bell).value();
    met_.pidfds[0] = own_pidfd();
    arrived_ = 1;
    return {};
  }

  Status wait() {
    std::vector<pollfd> entries{{listener_.get(), POLLIN, 0}};
    for (const Guest& guest : guests_) entries.push_back({guest.socket.get(), POLLIN, 0});
    const Time second = now() + std::chrono::seconds(1);
    const Time wake = options_.lost.limit(std::min(options_.deadline, second));
    if (::poll(entries.data(), entries.size(), poll_timeout(wake)) < 0 && errno != EINTR)
      return io_error("init: poll", errno);
    HVD_TRY(options_.lost.check());
    if (now() < options_.deadline) return {};
    return ranks_missing(options_.started, missing(), options_.job_size);
  }

  Status accept_all() {
    while (true) {
      Fd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (!socket && (errno == EINTR || errno == ECONNABORTED)) continue;
      if (!socket)
        return errno == EAGAIN ? Status() : io_error("init: accepting ranks of this host", errno);
      if (!same_user(socket.get())) continue;
      const auto stranger = [](const Guest& guest) { return guest.member < 0; };
      if (std::count_if(guests_.begin(), guests_.end(), stranger) >=
          static_cast<ptrdiff_t>(kMostStrangers)) {
        guests_.erase(std::find_if(guests_.begin(), guests_.end(), stranger));  // the oldest
      }
      guests_.push_back(Guest{std::move(socket), now(), -1});
    }
  }

  bool expected(const Hello& hello) const {
    const Hello ours;
    if (hello.magic != ours.magic || hello.protocol != ours.protocol ||
        !same_token(hello.token, place_.knock))
      return false;
    const bool in_range =
        hello.member > 0 && hello.member < static_cast<int>(options_.ranks.size());
    return in_range && !met_.bells[static_cast<size_t>(hello.member)] &&
           std::none_of(guests_.begin(), guests_.end(),
                        [&](const Guest& guest) { return guest.member == hello.member; });
  }

  // Strangers are sent away without a word; a member that fails ends the rendezvous.
  Status listen_to(Guest& guest) {
    if (guest.member < 0) {
      Hello hello;
      const Status got = receive_record_now(guest.socket.get(), bytes_into(hello), nullptr);
      if (got.code() == Code::kPending) return {};
      if (!got.ok() || !expected(hello)) {
        guest.socket.reset();
        return {};
      }
      guest.member = hello.member;
    }
    Belongings belongings;
    std::vector<Fd> fds;
    Status got = receive_record_now(guest.socket.get(), bytes_into(belongings), &fds);
    if (got.code() == Code::kPending) return {};
    if (got.ok() && (belongings.member != guest.member || fds.size() != 1 + belongings.has_pidfd)) {
      got = Status(Code::kInternal, "sent " + std::to_string(fds.size()) + " descriptors");
    }
    if (!got.ok()) return during_rendezvous(options_, guest.member, got);
    const auto member = static_cast<size_t>(guest.member);
    met_.bells[member] = std::move(fds[0]);
    if (belongings.has_pidfd != 0) met_.pidfds[member] = std::move(fds[1]);
    met_.sockets[member] = std::move(guest.socket);
    ++arrived_;
    return {};
  }

  Status hand_out(int to, int memory) {
    const int socket = met_.sockets[static_cast<size_t>(to)].get();
    const Welcome welcome{token_bytes(place_.answer), static_cast<int32_t>(options_.ranks.size()),
                          0};
    HVD_TRY(send_record(socket, bytes_of(welcome), std::array{memory}, options_.deadline));
    std::vector<int> fds;
    for (size_t member = 0; member < options_.ranks.size();) {
      Share share{static_cast<int32_t>(member)};
      fds.clear();
      for (auto& has_pidfd : share.has_pidfd) {
        if (member == options_.ranks.size()) break;
        has_pidfd = static_cast<bool>(met_.pidfds[member]);
        fds.push_back(met_.bells[member].get());
        if (has_pidfd != 0) fds.push_back(met_.pidfds[member].get());
        ++share.count;
        ++member;
      }
      HVD_TRY(send_record(socket, bytes_of(share), fds, options_.deadline));
    }
    return {};
  }

  Fd listener_;
  const RendezvousPlace& place_;
  const RendezvousOptions& options_;
  LocalRendezvous met_;
  size_t arrived_ = 0;
  std::vector<Guest> guests_;
};

Result<Fd> connect_to(const RendezvousPlace& place, Time deadline) {
  sockaddr_un address{};
  const socklen_t size = fill_address(place.name, address);
  while (true) {
    Fd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket) return io_error("socket", errno);
    if (::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), size) == 0) return socket;
    if (errno == ECONNREFUSED)
      return Status(Code::kPeerLost, "has given up or ended").with_errno(ECONNREFUSED);
    // EAGAIN: the listener's queue is full at the moment.
    if ((errno != EAGAIN && errno != EINTR) || now() >= deadline)
      return io_error("connecting to it", errno);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

Status take_share(int socket, const RendezvousOptions& options, LocalRendezvous& met) {
  Share share;
  std::vector<Fd> received;
  HVD_TRY(receive_record(socket, bytes_into(share), &received, options.deadline));
  const size_t left = options.ranks.size() - met.bells.size();
  const bool fits = share.first == static_cast<int32_t>(met.bells.size()) && share.count > 0 &&
                    static_cast<size_t>(share.count) <= std::min(left, Share::kMost);
  size_t expected = fits ? static_cast<size_t>(share.count) : 0;
  for (size_t i = 0; fits && i < static_cast<size_t>(share.count); ++i)
    expected += share.has_pidfd[i] != 0 ? 1 : 0;
  if (!fits || received.size() != expected) {
    return Status(Code::kInternal, "sent " + std::to_string(received.size()) + " descriptors");
  }
  auto next = received.begin();
  for (size_t i = 0; i < static_cast<size_t>(share.count); ++i) {
    met.bells.push_back(std::move(*next++));
    met.pidfds.push_back(share.has_pidfd[i] != 0 ? std::move(*next++) : Fd());
  }
  return {};
}

Status exchange(int socket, const RendezvousPlace& place, const RendezvousOptions& options,
                LocalRendezvous& met) {
  Hello hello;
  hello.member = options.me;
  hello.token = token_bytes(place.knock);
  HVD_TRY(send_record(socket, bytes_of(hello), {}, options.deadline));

  Result<Fd> bell = new_bell();
  if (!bell.ok()) return bell.status();
  const Fd own_bell = std::move(bell).value();
  const Fd self = own_pidfd();
  const Belongings mine{options.me, self ? 1u : 0u};
  const std::array<int, 2> fds{own_bell.get(), self.get()};
  HVD_TRY(
      send_record(socket, bytes_of(mine), std::span(fds).first(self ? 2 : 1), options.deadline));

  Welcome welcome;
  std::vector<Fd> received;
  HVD_TRY(receive_record(socket, bytes_into(welcome), &received, options.deadline));
  if (!same_token(welcome.token, place.answer) || received.size() != 1 ||
      welcome.members != static_cast<int32_t>(options.ranks.size())) {
    return Status(Code::kMismatch, "answered with a wrong token or count");
  }
  met.memory = std::move(received[0]);
  while (met.bells.size() < options.ranks.size()) HVD_TRY(take_share(socket, options, met));
  return {};
}

}  // namespace

Result<RendezvousPlace> RendezvousPlace::make() {
  std::array<std::string, 3> tokens;
  for (std::string& token : tokens) {
    Result<std::string> random = random_token();
    if (!random.ok()) return random.status();
    token = random.value();
  }
  return RendezvousPlace{"hvd-" + tokens[0], tokens[1], tokens[2]};
}

Result<RendezvousPlace> RendezvousPlace::parse(const std::string& text) {
  RendezvousPlace place;
  std::istringstream(text) >> place.name >> place.knock >> place.answer;
  if (place.knock.size() != kTokenBytes || place.answer.size() != kTokenBytes) {
    return Status(Code::kInternal, "init: meeting place in the store is malformed");
  }
  return place;
}

Result<Fd> listen_at(const RendezvousPlace& place, int members) {
  Fd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return io_error("init: socket", errno);
  sockaddr_un address{};
  const socklen_t size = fill_address(place.name, address);
  if (::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      ::listen(socket.get(), members + static_cast<int>(kMostStrangers)) != 0) {
    return io_error("init: listening on this host", errno);
  }
  return socket;
}

Result<LocalRendezvous> lead_rendezvous(Fd listener, const RendezvousPlace& place,
                                        const RendezvousOptions& options, Fd memory,
                                        std::vector<int>& missing) {
  Reception reception(std::move(listener), place, options);
  Result<LocalRendezvous> met = reception.run(std::move(memory));
  if (met.status().code() == Code::kTimeout && !reception.missing().empty())
    missing = reception.missing();
  return met;
}

Result<LocalRendezvous> join_rendezvous(const RendezvousPlace& place,
                                        const RendezvousOptions& options) {
  Result<Fd> socket = connect_to(place, options.deadline);
  if (!socket.ok()) return during_rendezvous(options, 0, socket.status());
  if (!same_user(socket.value().get())) {
    return Status(Code::kMismatch, "init: the first rank of this host runs as another user");
  }
  LocalRendezvous met;
  if (Status status = exchange(socket.value().get(), place, options, met); !status.ok()) {
    if (status.code() == Code::kTimeout) {
      return Status(Code::kTimeout, "init: waited " + seconds_text(now() - options.started) +
                                        " s for the ranks on this host to connect");
    }
    return during_rendezvous(options, 0, status);
  }
  met.sockets.resize(options.ranks.size());
  met.sockets[0] = std::move(socket).value();
  return met;
}

Status ranks_missing(Time started, const std::vector<int>& missing, int size) {
  std::string text = "init: waited " + seconds_text(now() - started) + " s; missing ranks";
  for (int rank : missing) text += " " + std::to_string(rank);
  return Status(Code::kTimeout, text + " of " + std::to_string(size))
      .with_rank(missing.empty() ? -1 : missing.front());
}

}  // namespace hvd::transport
