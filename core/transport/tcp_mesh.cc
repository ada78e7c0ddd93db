// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp_mesh.h"

#include <poll.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <thread>

#include "transport/unix_meet.h"
#include "transport/unix_record.h"

namespace hvd::transport {
namespace {

Status towards(const Topology& topology, int rank, const char* what, const Status& why) {
  return Status(why.code(), std::string(what) + " " + topology.describe(rank) + ": " + why.message())
      .with_rank(rank)
      .with_errno(why.sys_errno());
}

// A connection whose other end has already closed, e.g. because opening the lane failed there.
bool is_stale(int socket) {
  char byte = 0;
  return ::recv(socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

}  // namespace

TcpMesh::TcpMesh(Events& events, Topology topology, std::string token, TcpDoor door)
    : events_(events),
      topology_(std::move(topology)),
      token_(std::move(token)),
      door_(std::move(door)),
      links_(static_cast<size_t>(topology_.size())),
      addresses_(static_cast<size_t>(topology_.size())),
      gone_(static_cast<size_t>(topology_.size())) {}

Result<std::unique_ptr<TcpMesh>> TcpMesh::listen(Events& events, const Topology& topology, const std::string& address,
                                                 const std::string& token, const Logger* log) {
  Result<TcpDoor> door = TcpDoor::open(events, address, token, log);
  if (!door.ok()) return door.status();
  return std::unique_ptr<TcpMesh>(new TcpMesh(events, topology, token, std::move(door).value()));
}

Result<Fd> TcpMesh::say_hello(int rank, int lane, Time deadline) const {
  Result<Fd> socket = connect_to(addresses_[static_cast<size_t>(rank)], deadline);
  if (!socket.ok()) return socket;
  const TcpHello hello = TcpHello::make(topology_.rank(), rank, lane, token_);
  // A new connection has room for a few bytes at once.
  const ssize_t sent = ::send(socket.value().get(), &hello, sizeof hello, MSG_NOSIGNAL);
  if (sent != static_cast<ssize_t>(sizeof hello)) return io_error("send", sent < 0 ? errno : EAGAIN);
  return socket;
}

Status TcpMesh::connect_control(int rank, const std::string& text, Time deadline) {
  std::string host;
  unsigned port = 0;
  std::istringstream(text) >> host >> port;
  Result<SocketAddress> address = SocketAddress::loopback(host, static_cast<uint16_t>(port));
  if (!address.ok()) return address.status();
  addresses_[static_cast<size_t>(rank)] = address.value();
  Result<Fd> socket = say_hello(rank, kControlLane, deadline);
  if (!socket.ok()) return towards(topology_, rank, "init: connecting to", socket.status());
  Result<std::unique_ptr<TcpLink>> link = TcpLink::start(events_, std::move(socket).value(), rank);
  if (!link.ok()) return link.status();
  links_[static_cast<size_t>(rank)] = std::move(link).value();
  return {};
}

std::vector<int> TcpMesh::not_connected() const {
  std::vector<int> ranks;
  for (int rank = 0; rank < topology_.size(); ++rank) {
    if (remote(rank) && links_[static_cast<size_t>(rank)] == nullptr) ranks.push_back(rank);
  }
  return ranks;
}

Status TcpMesh::accept_controls(Time started, Time deadline) {
  while (true) {
    for (const Event& event : events_.take()) on_event(event);
    HVD_TRY(trouble_);
    const std::vector<int> missing = not_connected();
    if (missing.empty()) return {};
    if (now() >= deadline) return ranks_missing(started, missing, topology_.size());
    // Events that are not the mesh's own stay ready, so waiting on the descriptor alone could spin.
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
}

bool TcpMesh::admit(const TcpHello& hello, Fd& socket) {
  const int rank = hello.from;
  // Only higher ranks connect to lower ones.
  if (hello.to != topology_.rank() || rank <= topology_.rank() || rank >= topology_.size() || !remote(rank)) return false;
  if (hello.lane >= 0) {
    std::lock_guard<std::mutex> lock(mutex_);
    arrived_[{hello.lane, rank}] = std::move(socket);
    changed_.notify_all();
    return true;
  }
  std::unique_ptr<TcpLink>& place = links_[static_cast<size_t>(rank)];
  if (hello.lane != kControlLane || place != nullptr || gone_[static_cast<size_t>(rank)]) return false;
  Result<std::unique_ptr<TcpLink>> link = TcpLink::start(events_, std::move(socket), rank);
  if (link.ok()) {
    place = std::move(link).value();
  } else {
    trouble_ = link.status();
  }
  return true;
}

void TcpMesh::send(int rank, std::span<const std::byte> message) {
  if (TcpLink* link = links_[static_cast<size_t>(rank)].get()) link->send(message);
}

void TcpMesh::on_event(const Event& event) {
  if (event.kind == EventKind::kStream) return;  // it was there to wake; the programs look at their streams themselves
  if (event.kind != EventKind::kControl) {
    if (event.kind == EventKind::kTimer && event.index != kDoorTimer) return;
    door_.on_event(event, [this](const TcpHello& hello, Fd& socket) { return admit(hello, socket); });
    return;
  }
  TcpLink* link = links_[event.index].get();
  if (link == nullptr) return;
  if ((event.events & EPOLLOUT) != 0) link->flush();
  const int rank = static_cast<int>(event.index);
  const bool readable = (event.events & ~static_cast<uint32_t>(EPOLLOUT)) != 0;
  if (readable && std::find(readable_.begin(), readable_.end(), rank) == readable_.end()) readable_.push_back(rank);
}

std::vector<TcpMesh::Departure> TcpMesh::take_departures() {
  std::vector<Departure> departures;
  for (int rank : std::exchange(ended_, {})) {
    const TcpLink* link = links_[static_cast<size_t>(rank)].get();
    if (link == nullptr) continue;
    const bool malformed = link->ending() == TcpLink::Ending::kMalformed;
    departures.push_back(
        {rank, link->ending() == TcpLink::Ending::kGoodbye, malformed ? "sent a malformed message" : "closed its connection"});
  }
  for (int rank : std::exchange(*broken_streams_, {})) departures.push_back({rank, false, "closed its connection"});
  return departures;
}

void TcpMesh::forget(int rank) {
  links_[static_cast<size_t>(rank)].reset();
  std::lock_guard<std::mutex> lock(mutex_);
  gone_[static_cast<size_t>(rank)] = true;
  changed_.notify_all();
}

void TcpMesh::leave(Time deadline) {
  for (const auto& link : links_) {
    if (link) link->say_goodbye();
  }
  // Closing a socket with unread input discards what the other side has not acknowledged, goodbye included.
  const auto delivered = [](const auto& link) { return !link || (link->all_sent() && link->all_received_by_peer()); };
  while (!std::all_of(links_.begin(), links_.end(), delivered) && now() < deadline) {
    bool moved = false;
    for (const auto& link : links_) moved = (link && link->flush()) || moved;
    if (!moved) std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  hang_up();
  for (auto& link : links_) link.reset();
}

void TcpMesh::hang_up() {
  for (const auto& link : links_) {
    if (link) link->hang_up();
  }
  door_.close();
}

Result<Fd> TcpMesh::await_stream(int rank, int lane, Time deadline) {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    const auto found = arrived_.find({lane, rank});
    if (found != arrived_.end()) {
      Fd socket = std::move(found->second);
      arrived_.erase(found);
      if (!is_stale(socket.get())) return socket;
      continue;
    }
    if (gone_[static_cast<size_t>(rank)]) return Status(Code::kPeerLost, "is gone");
    if (deadline == kNever) {
      changed_.wait(lock);
    } else if (changed_.wait_until(lock, deadline) == std::cv_status::timeout) {
      return Status(Code::kTimeout, "did not connect in time");
    }
  }
}

Status TcpMesh::open_streams(Lane& lane, Time deadline) {
  for (size_t member = 0; member < lane.ranks.size(); ++member) {
    const int rank = lane.ranks[member];
    if (!remote(rank)) continue;
    const bool connects = topology_.rank() > rank;
    Result<Fd> socket = connects ? say_hello(rank, lane.id, deadline) : await_stream(rank, lane.id, deadline);
    const std::string what = "lane " + std::to_string(lane.id) + ":";
    if (!socket.ok()) return towards(topology_, rank, what.c_str(), socket.status());
    Result<std::unique_ptr<Stream>> stream = TcpStream::start(events_, std::move(socket).value(), rank, broken_streams_);
    if (!stream.ok()) return stream.status();
    lane.streams[member] = std::move(stream).value();
  }
  return {};
}

}  // namespace hvd::transport
