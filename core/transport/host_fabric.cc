// SPDX-License-Identifier: Apache-2.0
#include "transport/host_fabric.h"

#include <unistd.h>

#include <algorithm>
#include <thread>

#include "base/bell.h"

namespace hvd::transport {
namespace {

// A rank that polls without pause still looks for deaths this often. Reading the clock at each poll
// would double its cost; reading it rarely would see deaths late where polls are milliseconds
// apart, between yields on a crowded machine.
constexpr Duration kLongestBlindness = std::chrono::milliseconds(1);
constexpr uint32_t kPollsPerClock = 8;
// With remote hosts, every so many polls that found nothing in memory ask the kernel for socket
// events; all of them if nobody else is on this host.
constexpr uint32_t kPollsPerSocketCheck = 4;

}  // namespace

HostFabric::HostFabric(FabricParts parts)
    : topology_(std::move(parts.topology)),
      creator_(::getpid()),
      log_(parts.log),
      events_(std::move(parts.events)),
      shared_(std::move(parts.shared)),
      watch_(std::move(parts.watch)),
      mesh_(std::move(parts.mesh)),
      expulsions_(std::move(parts.expulsions)),
      mailbox_(shared_, topology_.local_rank()),
      suspicions_(*events_),
      watching_(mesh_ != nullptr || !watch_->empty() || !expulsions_.descriptors.empty()),
      peers_(static_cast<size_t>(topology_.size()), Peerhood::kHere),
      events_seen_(now()) {}

HostFabric::~HostFabric() { give_up(); }

void HostFabric::give_up() noexcept {
  // In a forked child everything shared still belongs to the parent.
  if (::getpid() != creator_ || gone_) return;
  gone_ = true;
  mailbox_.announce(mailbox_.me(), kClosed);
  watch_->hang_up();
  if (mesh_) mesh_->hang_up();
}

void HostFabric::send(int peer, std::span<const std::byte> bytes, bool urgent,
                      std::span<const std::byte> payload) {
  if (peers_[static_cast<size_t>(peer)] != Peerhood::kHere) return;
  if (bytes.size() + payload.size() > kMaxMessage) {
    if (log_ != nullptr) {
      log_->write(LogLevel::kError, "transport",
                  "message to " + topology_.describe(peer) + ": " +
                      std::to_string(bytes.size() + payload.size()) + " bytes, the limit is " +
                      std::to_string(kMaxMessage) + "; not sent");
    }
    return;
  }
  if (!on_this_host(peer)) {
    mesh_->send(peer, bytes, payload);
  } else if (payload.empty()) {
    mailbox_.send(topology_.local_rank_of(peer), bytes, urgent);
  } else {
    std::vector<std::byte> whole(bytes.begin(), bytes.end());
    whole.insert(whole.end(), payload.begin(), payload.end());
    mailbox_.send(topology_.local_rank_of(peer), whole, urgent);
  }
}

bool HostFabric::poll(Sink& sink) {
  // Read before the rings, because messages of a rank must be seen before its leaving.
  const uint32_t news = mailbox_.line(mailbox_.me()).news.load(std::memory_order_acquire);
  bool any = receive_local(sink);
  any = mailbox_.flush() || any;
  if (news != news_seen_) {
    news_seen_ = news;
    any = look_at_presence(sink) || any;
  }
  if (events_due(any)) any = handle_events(sink) || any;
  stirred_ = stirred_ || any;
  return any;
}

bool HostFabric::receive_local(Sink& sink) {
  const bool any = mailbox_.receive(
      [&](int member, std::span<const std::byte> bytes) {
        sink.on_message(rank_of(member), bytes);
      },
      [&](int member) { broken_.push_back(member); });
  for (int member : broken_)
    drop(sink, rank_of(member), Peerhood::kLost, "sent a malformed message");
  broken_.clear();
  return any;
}

bool HostFabric::look_at_presence(Sink& sink) {
  bool any = false;
  const std::vector<int> members = mailbox_.open_members();
  for (int member : members) {
    const uint32_t presence = mailbox_.line(member).presence.load(std::memory_order_acquire);
    if (presence == kHere) continue;
    any = true;
    drop(sink, rank_of(member), presence == kLeft ? Peerhood::kLeft : Peerhood::kLost,
         "closed its connection");
  }
  return any;
}

void HostFabric::lose_everybody(Sink& sink) {
  for (int rank = 0; rank < topology_.size(); ++rank) {
    Peerhood& peer = peers_[static_cast<size_t>(rank)];
    if (rank == topology_.rank() || peer == Peerhood::kLost) continue;
    // Ranks that have left meanwhile have left a job without this rank.
    if (peer == Peerhood::kHere) drop(sink, rank, Peerhood::kLeft, "");
    peer = Peerhood::kLost;
    sink.on_peer_lost(rank, "gave this rank up: it had stood still");
  }
}

void HostFabric::drop(Sink& sink, int rank, Peerhood how, const std::string& cause) {
  Peerhood& peer = peers_[static_cast<size_t>(rank)];
  if (peer != Peerhood::kHere) return;
  peer = how;
  if (on_this_host(rank)) {
    const int member = topology_.local_rank_of(rank);
    if (std::find(broken_.begin(), broken_.end(), member) == broken_.end()) {
      mailbox_.receive_from(
          member, [&](int, std::span<const std::byte> bytes) { sink.on_message(rank, bytes); },
          [](int) {});
    }
    mailbox_.close(member);
    watch_->forget(member);
  }
  if (mesh_) mesh_->forget(rank);
  suspicions_.forget(rank);
  if (how == Peerhood::kLost) sink.on_peer_lost(rank, cause);
}

bool HostFabric::events_due(bool anything_happened) {
  if (events_due_) return true;
  if (!watching_) return false;
  ++polls_;
  const uint32_t every = mailbox_.open_members().empty() ? 1 : kPollsPerSocketCheck;
  if (mesh_ && !anything_happened && polls_ % every == 0) return true;
  return polls_ % kPollsPerClock == 0 && now() >= events_seen_ + kLongestBlindness;
}

bool HostFabric::handle_events(Sink& sink) {
  events_due_ = false;
  events_seen_ = now();
  bool bell = false, launcher = false;
  for (const Event& event : events_->take()) {
    switch (event.kind) {
      case EventKind::kBell: bell = true; break;
      case EventKind::kLauncher: launcher = true; break;
      case EventKind::kProcess: watch_->on_process(static_cast<int>(event.index)); break;
      case EventKind::kUnixSocket: watch_->on_socket(static_cast<int>(event.index)); break;
      case EventKind::kTimer:
        if (event.index == kSuspicionTimer) suspicions_.on_timer();
        [[fallthrough]];
      default:
        if (mesh_) mesh_->on_event(event);
    }
  }
  if (bell) drain_bell();
  bool lost = handle_watch(sink);
  lost = (launcher && handle_launcher(sink)) || lost;
  // A bell that is taken in calls for one more look: its message may have come after this look.
  return (mesh_ && handle_mesh(sink)) || lost || bell;
}

void HostFabric::drain_bell() {
  uint64_t count = 0;
  if (::read(shared_->bell(mailbox_.me()), &count, sizeof count) == sizeof count)
    bell_owed_ = false;
}

bool HostFabric::handle_watch(Sink& sink) {
  const std::vector<Watch::Loss> losses = watch_->take_losses();
  // Messages that others have sent since this look began are older than the end if the rank that
  // ended had heard of them.
  if (!losses.empty()) receive_local(sink);
  for (const Watch::Loss& loss : losses) {
    const uint32_t presence = mailbox_.line(loss.member).presence.load(std::memory_order_acquire);
    // A rank that lives on without its connection (exec) is noticed only by the ranks connected to
    // it, which tell the others.
    if (presence == kHere && loss.hung_up) mailbox_.announce(loss.member, kClosed);
    drop(sink, rank_of(loss.member), presence == kLeft ? Peerhood::kLeft : Peerhood::kLost,
         loss.cause);
  }
  return !losses.empty();
}

bool HostFabric::handle_launcher(Sink& sink) {
  const Result<std::map<int, std::string>> expelled = expulsions_.take();
  if (!expelled.ok()) {
    for (const int descriptor : expulsions_.descriptors) events_->remove(descriptor);
    return false;
  }
  for (const auto& [rank, cause] : expelled.value()) {
    if (rank == topology_.rank())
      lose_everybody(sink);
    else if (rank >= 0 && rank < topology_.size())
      drop(sink, rank, Peerhood::kLost, cause);
  }
  return !expelled.value().empty();
}

bool HostFabric::handle_mesh(Sink& sink) {
  const bool any = mesh_->deliver(
      [&](int rank, std::span<const std::byte> bytes) { sink.on_message(rank, bytes); });
  for (const TcpMesh::Departure& departure : mesh_->take_departures()) {
    if (departure.in_order || departure.silent) {
      drop(sink, departure.rank, departure.in_order ? Peerhood::kLeft : Peerhood::kLost,
           departure.cause);
    } else {
      lose_remote(sink, departure);
    }
  }
  return lose_suspects(sink) || any;
}

// The connection of a remote rank has closed. The ranks of its host know more.
void HostFabric::lose_remote(Sink& sink, const TcpMesh::Departure& departure) {
  if (peers_[static_cast<size_t>(departure.rank)] != Peerhood::kHere) return;
  const Status held =
      suspicions_.hold(departure.rank, departure.cause, now() + Suspicions::kPatience);
  if (!held.ok()) return drop(sink, departure.rank, Peerhood::kLost, departure.cause);
  mesh_->forget(departure.rank);
}

bool HostFabric::nobody_left_beside(int rank) const {
  for (int other = 0; other < topology_.size(); ++other) {
    const bool beside = topology_.host_index(other) == topology_.host_index(rank);
    if (beside && peers_[static_cast<size_t>(other)] == Peerhood::kHere && !suspicions_.has(other))
      return false;
  }
  return true;
}

bool HostFabric::lose_suspects(Sink& sink) {
  bool any = false;
  while (!suspicions_.empty()) {
    const auto found = suspicions_.take(
        now(), [this](int rank) { return nobody_left_beside(rank); },
        [this](int one, int other) {
          return topology_.host_index(one) == topology_.host_index(other);
        });
    if (!found) break;
    any = true;
    drop(sink, found->rank, Peerhood::kLost, found->cause);
  }
  return any;
}

bool HostFabric::park_begin() noexcept {
  // If this wake-up brought nothing, it was for a descriptor that nobody has looked at. A job of
  // one rank has none.
  if (topology_.size() > 1 && !stirred_ && events_->any()) {
    events_due_ = true;
    return false;
  }
  if (!mailbox_.park()) return false;
  parked_ = true;
  if (mailbox_.line(mailbox_.me()).news.load(std::memory_order_seq_cst) != news_seen_) {
    park_end();
    return false;
  }
  return true;
}

void HostFabric::park_end() noexcept {
  if (parked_ && mailbox_.unpark()) bell_owed_ = true;
  parked_ = false;
  if (interrupted_.exchange(false)) bell_owed_ = true;
  // The ringer takes the mark first and rings then: the bell may be a moment behind, hence owed
  // until drained.
  if (bell_owed_) events_due_ = true;
  stirred_ = false;
}

void HostFabric::interrupt() noexcept {
  interrupted_.store(true);
  ring(shared_->bell(mailbox_.me()));
}

void HostFabric::poke(int peer) noexcept {
  if (on_this_host(peer)) wake_if_parked(*shared_, topology_.local_rank_of(peer));
}

Result<std::unique_ptr<Lane>> HostFabric::open_lane(int id, const std::vector<int>& ranks,
                                                    size_t bytes_per_member, Time deadline) {
  auto lane = std::make_unique<Lane>();
  lane->id = id;
  lane->ranks = ranks;
  std::vector<int> host_numbers;  // host index in the job, by number in the lane
  std::vector<int> others;        // local members on this host besides this rank
  for (size_t member = 0; member < ranks.size(); ++member) {
    const int rank = ranks[member];
    if (rank == topology_.rank()) {
      lane->me = static_cast<int>(member);
      lane->me_local = static_cast<int>(lane->local.size());
    }
    if (on_this_host(rank)) {
      lane->local.push_back(static_cast<int>(member));
      if (rank != topology_.rank()) others.push_back(topology_.local_rank_of(rank));
    }
    const int host = topology_.host_index(rank);
    auto found = std::find(host_numbers.begin(), host_numbers.end(), host);
    if (found == host_numbers.end()) found = host_numbers.insert(found, host);
    lane->host_of.push_back(static_cast<int>(found - host_numbers.begin()));
  }
  lane->hosts = static_cast<int>(host_numbers.size());
  lane->streams.resize(ranks.size());

  const int local_count = static_cast<int>(lane->local.size());
  const size_t bytes = std::max<size_t>(1, bytes_per_member * static_cast<size_t>(local_count));
  Result<Window> window = shared_->open_window(id, bytes, local_count, lane->me_local);
  if (!window.ok()) return window.status();
  struct Hold {
    Window window;
    LaneBell bell;
  };
  auto hold = std::make_shared<Hold>(Hold{window.value(), LaneBell(shared_, std::move(others))});
  lane->memory = hold->window.memory.first(bytes_per_member * static_cast<size_t>(local_count));
  lane->bell = &hold->bell;
  lane->mapping = std::move(hold);
  if (lane->hosts > 1) {
    if (Status streams = mesh_->open_streams(*lane, deadline); !streams.ok()) {
      close_lane(std::move(lane));
      return streams;
    }
  }
  return lane;
}

void HostFabric::close_lane(std::unique_ptr<Lane> lane) noexcept {
  if (lane == nullptr) return;
  const int id = lane->id;
  lane.reset();
  shared_->close_window(id);
}

void HostFabric::leave(Time deadline) noexcept {
  if (::getpid() != creator_ || gone_) return;
  try {
    say_goodbye(deadline);
    gone_ = true;
  } catch (...) {
    give_up();  // no memory for a goodbye
  }
}

void HostFabric::say_goodbye(Time deadline) {
  while (!mailbox_.all_sent() && now() < deadline) {
    if (!mailbox_.flush()) std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  mailbox_.announce(mailbox_.me(), kLeft);
  watch_->hang_up();
  if (mesh_) mesh_->leave(deadline);
}

}  // namespace hvd::transport
