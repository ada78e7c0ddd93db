// SPDX-License-Identifier: Apache-2.0
#include "transport/mailbox.h"

#include <unistd.h>

#include <algorithm>
#include <new>
#include <utility>

#include "base/bell.h"

namespace hvd::transport {

// Sleeping and waking follow one rule: the sleeper stores kParked and then looks for mail, the
// sender stores mail and then looks for kParked, each with a full fence between. So at least one of
// the two sees the other.
bool wake_if_parked(const HostSharedMemory& shared, int member) noexcept {
  std::atomic<uint32_t>& attention = shared.board().line(member).attention;
  if ((attention.fetch_and(~kParked, std::memory_order_seq_cst) & kParked) == 0) return false;
  ring(shared.bell(member));
  return true;
}

Mailbox::Mailbox(std::shared_ptr<HostSharedMemory> shared, int me)
    : shared_(std::move(shared)), me_(me) {
  const Board& board = shared_->board();
  peers_.resize(static_cast<size_t>(board.members()));
  for (int member = 0; member < board.members(); ++member) {
    if (member == me) continue;
    peers_[static_cast<size_t>(member)].writer = board.writer(me, member);
    peers_[static_cast<size_t>(member)].reader = board.reader(member, me);
    open_.push_back(member);
  }
}

void Mailbox::notify(int member, bool whatever_it_does) noexcept {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  const uint32_t attention = line(member).attention.load(std::memory_order_relaxed);
  if ((attention & kParked) == 0) return;
  if (whatever_it_does || (attention & kInterested) != 0) wake_if_parked(*shared_, member);
}

void Mailbox::send(int member, std::span<const std::byte> message, bool urgent) {
  if (std::find(open_.begin(), open_.end(), member) == open_.end()) return;
  Peer& peer = peers_[static_cast<size_t>(member)];
  if (peer.cut_off) throw std::bad_alloc();
  size_t done = 0;
  const bool sent = peer.waiting.empty() && peer.writer.put(message, done);
  if (!sent) {
    // The rest only: `done` bytes are in the ring.
    peer.cut_off = true;
    if (peer.waiting.empty()) peer.done = done;
    peer.waiting.emplace_back(message.begin(), message.end());
    peer.cut_off = false;
    ++waiting_;
  }
  // A full ring is emptied by a wakened reader only, so it is rung in any case.
  notify(member, urgent || !sent);
}

bool Mailbox::flush_to(int member) {
  Peer& peer = peers_[static_cast<size_t>(member)];
  bool moved = false;
  while (!peer.waiting.empty()) {
    const size_t before = peer.done;
    const bool complete = peer.writer.put(peer.waiting.front(), peer.done);
    moved = moved || complete || peer.done != before;
    if (!complete) break;
    peer.waiting.pop_front();
    peer.done = 0;
    --waiting_;
  }
  if (moved) notify(member, true);
  return moved;
}

bool Mailbox::flush_waiting() {
  bool moved = false;
  for (int member : open_) moved = flush_to(member) || moved;
  return moved;
}

void Mailbox::close(int member) {
  std::erase(open_, member);
  Peer& peer = peers_[static_cast<size_t>(member)];
  waiting_ -= peer.waiting.size();
  peer.waiting.clear();
}

void Mailbox::set_interest(bool interested) noexcept {
  if (interested == interested_) return;
  interested_ = interested;
  std::atomic<uint32_t>& attention = line(me_).attention;
  if (interested) {
    attention.fetch_or(kInterested, std::memory_order_seq_cst);
  } else {
    attention.fetch_and(~kInterested, std::memory_order_seq_cst);
  }
}

bool Mailbox::has_mail() const {
  return std::any_of(open_.begin(), open_.end(), [&](int member) {
    return peers_[static_cast<size_t>(member)].reader.ready();
  });
}

bool Mailbox::park() noexcept {
  if (waiting_ != 0) {
    for (int member : open_) {
      Peer& peer = peers_[static_cast<size_t>(member)];
      if (!peer.waiting.empty() && !peer.writer.starve()) return false;
    }
  }
  line(me_).attention.fetch_or(kParked, std::memory_order_seq_cst);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (!has_mail()) {
    if (waiting_ == 0) return true;
    // A reader that made room before it could see kParked has not rung.
    const bool room = std::any_of(open_.begin(), open_.end(), [&](int member) {
      Peer& peer = peers_[static_cast<size_t>(member)];
      return !peer.waiting.empty() && !peer.writer.starve();
    });
    if (!room) return true;
  }
  unpark();
  return false;
}

bool Mailbox::unpark() noexcept {
  return (line(me_).attention.fetch_and(~kParked, std::memory_order_seq_cst) & kParked) == 0;
}

void Mailbox::announce(int member, uint32_t presence) noexcept {
  line(member).presence.store(presence, std::memory_order_release);
  const int members = shared_->board().members();
  for (int other = 0; other < members; ++other) {
    if (other == member || other == me_) continue;
    line(other).news.fetch_add(1, std::memory_order_seq_cst);
    wake_if_parked(*shared_, other);
  }
}

void LaneBell::ring_sleepers() noexcept {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  for (int member : others_) {
    if ((shared_->board().line(member).attention.load(std::memory_order_relaxed) & kParked) != 0) {
      wake_if_parked(*shared_, member);
    }
  }
}

}  // namespace hvd::transport
