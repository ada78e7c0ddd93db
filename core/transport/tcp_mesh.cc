// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp_mesh.h"

#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <thread>

#include "transport/unix_rendezvous.h"

namespace hvd::transport {

TcpMesh::TcpMesh(Events& events, const Topology& topology, MeshOptions options)
    : events_(events),
      topology_(topology),
      options_(std::move(options)),
      calls_(options_.credentials),
      links_(static_cast<size_t>(topology.size())),
      where_(static_cast<size_t>(topology.size())),
      gone_(static_cast<size_t>(topology.size())) {}

Result<std::unique_ptr<TcpMesh>> TcpMesh::listen(Events& events, const Topology& topology,
                                                 MeshOptions options) {
  std::unique_ptr<TcpMesh> mesh(new TcpMesh(events, topology, std::move(options)));
  const auto expected = [mesh = mesh.get()](const Call& call) { return mesh->expected(call); };
  auto listener = TcpListener::open(events, mesh->options_.listen_at, mesh->options_.credentials,
                                    expected, mesh->options_.log);
  if (!listener.ok()) return listener.status();
  mesh->listener_ = std::move(listener).value();
  return mesh;
}

Status TcpMesh::towards(int rank, const std::string& what, const Status& why) const {
  return Status(why.code(), what + " " + topology_.describe(rank) + ": " + why.message())
      .with_rank(rank)
      .with_errno(why.sys_errno());
}

void TcpMesh::call(int rank, std::vector<SocketAddress> candidates) {
  calls_.add({topology_.rank(), rank, kControlLane, 0}, std::move(candidates));
}

std::vector<int> TcpMesh::not_connected() const {
  std::vector<int> ranks;
  for (int rank = 0; rank < topology_.size(); ++rank) {
    const TcpLink* link = links_[static_cast<size_t>(rank)].get();
    if (remote(rank) && (link == nullptr || (payloads_apart() && !link->carries_payloads())))
      ranks.push_back(rank);
  }
  return ranks;
}

Status TcpMesh::meet(Time started, Time deadline) {
  while (true) {
    const Time second = now() + std::chrono::seconds(1);
    const Time wake = options_.lost.limit(std::min(deadline, second));
    const Status called = calls_.step(events_.fd(), wake);
    HVD_TRY(options_.lost.check());
    if (!called.ok()) return called.rank() < 0 ? called : towards(called.rank(), "init:", called);
    HVD_TRY(keep_connections());
    const bool ours = take_events();
    HVD_TRY(trouble_);
    HVD_TRY(check_arrived());
    const std::vector<int> missing = not_connected();
    if (missing.empty()) break;
    if (now() >= deadline) {
      const Status open = calls_.timed_out();
      return open.ok() ? ranks_missing(started, missing, topology_.size())
                       : towards(open.rank(), "init:", open);
    }
    // Events that are not the mesh's own stay ready, so waiting on the descriptor alone could spin.
    if (!ours) std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  return watch_for_silence();
}

Status TcpMesh::keep_connections() {
  for (Calls::Connection& connection : calls_.take_connections()) {
    const int rank = connection.call.to;
    if (connection.call.stream != kMessages) {
      HVD_TRY(
          keep_payloads(rank, connection.call.stream == kPayloadsOut, std::move(connection.wire)));
      continue;
    }
    for (const int32_t stream : {kPayloadsOut, kPayloadsBack}) {
      if (payloads_apart())
        calls_.add({topology_.rank(), rank, kControlLane, stream}, {connection.address});
    }
    where_[static_cast<size_t>(rank)] = connection.address;
    if (options_.log != nullptr && options_.log->enabled(LogLevel::kDebug)) {
      options_.log->write(LogLevel::kDebug, "transport",
                          "reached " + topology_.describe(rank) + " at " +
                              connection.address.text() + ", the first to answer");
    }
    HVD_TRY(keep_link(rank, std::move(connection.wire)));
  }
  return {};
}

// A rank that dies while others still arrive will never be driven to say so.
Status TcpMesh::check_arrived() const {
  for (const auto& [rank, payload_only] : readable_) {
    const TcpLink* link = links_[static_cast<size_t>(rank)].get();
    if (link != nullptr && link->is_dead()) {
      return towards(rank, "init:", Status(Code::kPeerLost, "closed its connection"));
    }
  }
  return {};
}

Status TcpMesh::keep_link(int rank, std::unique_ptr<Wire> wire) {
  if (options_.peer_timeout > Duration::zero()) set_patience(wire->fd(), options_.peer_timeout);
  Result<std::unique_ptr<TcpLink>> link = TcpLink::start(events_, std::move(wire), rank);
  if (!link.ok()) return link.status();
  links_[static_cast<size_t>(rank)] = std::move(link).value();
  for (const bool sending : {false, true}) {
    const auto early = early_payloads_.extract({rank, sending});
    if (!early.empty()) HVD_TRY(keep_payloads(rank, sending, std::move(early.mapped())));
  }
  return {};
}

// A network may deliver the last words of the link's own connection later than all of this one.
Status TcpMesh::keep_payloads(int rank, bool sending, std::unique_ptr<Wire> wire) {
  TcpLink* link = links_[static_cast<size_t>(rank)].get();
  if (link == nullptr) {
    early_payloads_[{rank, sending}] = std::move(wire);
    return {};
  }
  if (options_.peer_timeout > Duration::zero()) set_patience(wire->fd(), options_.peer_timeout);
  return link->carry_payloads(sending, std::move(wire));
}

// True if any of them were the mesh's.
bool TcpMesh::take_events() {
  bool ours = false;
  for (const Event& event : events_.take()) {
    ours = ours || (event.kind != EventKind::kBell && event.kind != EventKind::kProcess &&
                    event.kind != EventKind::kUnixSocket);
    on_event(event);
  }
  return ours;
}

// Only higher ranks connect to lower ones.
bool TcpMesh::expected(const Call& call) const {
  const bool known = call.from > topology_.rank() && call.from < topology_.size();
  const bool payloads = call.stream == kPayloadsOut || call.stream == kPayloadsBack;
  const bool has_use =
      call.lane != kControlLane || call.stream == kMessages || (payloads && payloads_apart());
  return call.to == topology_.rank() && known && has_use && remote(call.from);
}

bool TcpMesh::admit(const Call& call, std::unique_ptr<Wire>& wire) {
  if (call.lane != kControlLane) {
    MutexLock lock(mutex_);
    arrived_[{call.lane, call.from, call.stream}] = std::move(wire);
    changed_.notify_all();
    return true;
  }
  const TcpLink* link = links_[static_cast<size_t>(call.from)].get();
  if (first_gone({call.from}) >= 0) return false;
  if (call.stream != kMessages) {
    const bool sending = call.stream == kPayloadsBack;
    if (link != nullptr && link->has_payload_wire(sending)) return false;
    if (Status kept = keep_payloads(call.from, sending, std::move(wire)); !kept.ok())
      trouble_ = kept;
    return true;
  }
  if (link != nullptr) return false;
  if (Status kept = keep_link(call.from, std::move(wire)); !kept.ok()) trouble_ = kept;
  return true;
}

void TcpMesh::send(int rank, std::span<const std::byte> message,
                   std::span<const std::byte> payload) {
  TcpLink* link = links_[static_cast<size_t>(rank)].get();
  if (link == nullptr) return;
  link->send(message, payload);
  if (liveness_) liveness_->told(rank, now());
}

void TcpMesh::on_event(const Event& event) {
  switch (event.kind) {
    case EventKind::kTimer:
      if (event.index == kLivenessTimer) tick_due_ = true;
      if (event.index != kListenerTimer) return;
      [[fallthrough]];
    case EventKind::kListener:
    case EventKind::kStranger:
      listener_->on_event(event, [this](const Call& call, std::unique_ptr<Wire>& wire) {
        return admit(call, wire);
      });
      return;
    case EventKind::kControl:
    case EventKind::kPayload: break;
    default: return;  // streams only had to wake; the programs look at their streams themselves
  }
  TcpLink* link = links_[event.index].get();
  if (link == nullptr) return;
  if ((event.events & EPOLLOUT) != 0) link->flush();
  if (event.kind == EventKind::kPayload && (event.events & EPOLLERR) != 0) link->give_up();
  const int rank = static_cast<int>(event.index);
  const std::pair<int, bool> source{rank, event.kind == EventKind::kPayload};
  const bool readable = (event.events & ~static_cast<uint32_t>(EPOLLOUT)) != 0;
  if (readable && std::find(readable_.begin(), readable_.end(), source) == readable_.end())
    readable_.push_back(source);
}

std::vector<TcpMesh::Departure> TcpMesh::take_departures() {
  std::vector<Departure> departures;
  for (int rank : std::exchange(ended_, {})) {
    const TcpLink* link = links_[static_cast<size_t>(rank)].get();
    if (link == nullptr) continue;
    departures.push_back({rank, link->ending() == TcpLink::Ending::kGoodbye, link->cause()});
  }
  for (const BrokenStreams::Break& broken : broken_streams_->take())
    departures.push_back({broken.rank, false, broken.cause});
  if (std::exchange(tick_due_, false)) look_for_silence(departures);
  return departures;
}

Status TcpMesh::watch_for_silence() {
  if (options_.peer_timeout <= Duration::zero()) return {};
  liveness_ = std::make_unique<Liveness>(topology_, options_.peer_timeout, now());
  liveness_timer_.reset(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!liveness_timer_) return io_error("timerfd_create", errno);
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(liveness_->interval());
  itimerspec spec{};
  spec.it_interval = {seconds.count(), (liveness_->interval() - seconds).count()};
  spec.it_value = spec.it_interval;
  ::timerfd_settime(liveness_timer_.get(), 0, &spec, nullptr);
  return events_.add(liveness_timer_.get(), EPOLLIN, EventKind::kTimer, kLivenessTimer);
}

void TcpMesh::look_for_silence(std::vector<Departure>& departures) {
  uint64_t expirations = 0;
  [[maybe_unused]] const ssize_t ignored =
      ::read(liveness_timer_.get(), &expirations, sizeof expirations);
  const Time current = now();
  const Liveness::News news = liveness_->tick(current);
  for (const int rank : news.tell) {
    TcpLink* link = links_[static_cast<size_t>(rank)].get();
    if (link == nullptr) continue;
    link->say_alive();
    liveness_->told(rank, current);
  }
  for (const Liveness::Silence& suspect : news.suspects) {
    if (options_.log == nullptr || !options_.log->enabled(LogLevel::kWarn)) break;
    options_.log->write(LogLevel::kWarn, "transport",
                        topology_.describe(suspect.rank) + ": " + suspect.cause + "; lost after " +
                            seconds_text(options_.peer_timeout) + " s");
  }
  for (const Liveness::Silence& silence : news.lost)
    departures.push_back({silence.rank, false, silence.cause, true});
}

void TcpMesh::forget(int rank) {
  if (liveness_) liveness_->forget(rank);
  links_[static_cast<size_t>(rank)].reset();
  MutexLock lock(mutex_);
  gone_[static_cast<size_t>(rank)] = true;
  changed_.notify_all();
}

void TcpMesh::leave(Time deadline) {
  for (const auto& link : links_) {
    if (link) link->say_goodbye();
  }
  // Closing a socket with unread input discards what the other side has not acknowledged, goodbye
  // included.
  const auto delivered = [](const auto& link) {
    return !link || (link->all_sent() && link->all_received_by_peer());
  };
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
  listener_->close();
}

}  // namespace hvd::transport
