// SPDX-License-Identifier: Apache-2.0
// Control messages and wake-ups between the ranks of one host, as one of them sees it.
#pragma once

#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "transport/host_shared_memory.h"
#include "transport/lane.h"

namespace hvd::transport {

// Takes the mark of a parked member away and, if it was set, wakes it. False if it does not sleep.
bool wake_if_parked(const HostSharedMemory& shared, int member) noexcept;

// Used by the driver only. Members are numbered within the host; `me` is this one.
class Mailbox {
 public:
  Mailbox(std::shared_ptr<HostSharedMemory> shared, int me);

  void send(int member, std::span<const std::byte> message, bool urgent);

  // Delivers to deliver(member, bytes); broken(member) if a member's ring makes no sense. True if
  // anything arrived.
  template <class Deliver, class Broken>
  bool receive(Deliver&& deliver, Broken&& broken) {
    bool any = false;
    for (int member : open_) any = receive_from(member, deliver, broken) || any;
    return any;
  }
  template <class Deliver, class Broken>
  bool receive_from(int member, Deliver&& deliver, Broken&& broken) {
    Peer& peer = peers_[static_cast<size_t>(member)];
    const RingReader::Outcome outcome =
        peer.reader.drain([&](std::span<const std::byte> bytes) { deliver(member, bytes); });
    if (outcome == RingReader::Outcome::kNothing) return false;
    if (outcome == RingReader::Outcome::kMalformed) broken(member);
    if (peer.reader.take_starved()) wake_if_parked(*shared_, member);
    return true;
  }

  // Moves what waited for room. True if anything moved.
  bool flush() { return waiting_ != 0 && flush_waiting(); }
  bool all_sent() const { return waiting_ == 0; }
  // Neither sends to nor receives from this member any more. Not to be called from inside
  // receive().
  void close(int member);

  void set_interest(bool interested) noexcept;
  // Announces that this rank sleeps; false, and not announced, if there is something to do.
  bool park() noexcept;
  // True if somebody has rung.
  bool unpark() noexcept;
  // Tells all others that this rank's presence has changed.
  void announce(int member, uint32_t presence) noexcept;

  MemberLine& line(int member) const { return shared_->board().line(member); }
  int me() const { return me_; }
  const std::vector<int>& open_members() const { return open_; }

 private:
  struct Peer {
    RingWriter writer;
    RingReader reader;
    std::deque<std::vector<std::byte>> waiting;
    size_t done = 0;       // bytes of waiting.front() already sent
    bool cut_off = false;  // a message was lost for want of memory: nothing right can follow it
  };

  bool flush_waiting();
  bool flush_to(int member);
  bool has_mail() const;
  // After something was put into a member's ring.
  void notify(int member, bool whatever_it_does) noexcept;

  std::shared_ptr<HostSharedMemory> shared_;
  int me_;
  std::vector<Peer> peers_;
  std::vector<int> open_;  // all others that are neither lost nor left
  size_t waiting_ = 0;     // messages in all queues
  bool interested_ = false;
};

// Doorbell of a lane.
class LaneBell final : public Doorbell {
 public:
  LaneBell(std::shared_ptr<const HostSharedMemory> shared, std::vector<int> others)
      : shared_(std::move(shared)), others_(std::move(others)) {}
  void ring_sleepers() noexcept override;

 private:
  std::shared_ptr<const HostSharedMemory> shared_;
  std::vector<int> others_;
};

}  // namespace hvd::transport
