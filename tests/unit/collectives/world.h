// SPDX-License-Identifier: Apache-2.0
// Members of a process set as threads of this process: lanes over plain memory, streams over pipes
// in memory.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "collectives/algorithms.h"
#include "collectives/slots.h"
#include "transport/lane.h"

namespace hvd::test {

class NoBell : public transport::Doorbell {
 public:
  void ring_sleepers() noexcept override {}
};

// One direction between two members. Takes and gives random amounts, often nothing.
class Pipe {
 public:
  explicit Pipe(uint32_t seed) : random_(seed) {}

  size_t put(std::span<const iovec> pieces) {
    std::lock_guard<std::mutex> lock(mutex_);
    const size_t room = std::min(kCapacity - held_, some());
    size_t moved = 0;
    for (const iovec& piece : pieces) {
      const size_t count = std::min(room - moved, piece.iov_len);
      each_stretch(first_ + held_, count, [&](std::byte* ring, size_t done, size_t length) {
        std::memcpy(ring, static_cast<const std::byte*>(piece.iov_base) + done, length);
      });
      held_ += count;
      moved += count;
    }
    return moved;
  }
  size_t get(std::span<const iovec> pieces) {
    std::lock_guard<std::mutex> lock(mutex_);
    const size_t most = std::min(held_, some());
    size_t moved = 0;
    for (const iovec& piece : pieces) {
      const size_t count = std::min(most - moved, piece.iov_len);
      each_stretch(first_, count, [&](std::byte* ring, size_t done, size_t length) {
        std::memcpy(static_cast<std::byte*>(piece.iov_base) + done, ring, length);
      });
      first_ = (first_ + count) % kCapacity;
      held_ -= count;
      moved += count;
    }
    return moved;
  }

 private:
  static constexpr size_t kCapacity = 100000;
  size_t some() { return random_() % 4 == 0 ? random_() % 3 : random_() % kCapacity; }

  // The one or two stretches of the ring that hold `count` bytes from `at` on.
  template <class Visitor>
  void each_stretch(size_t at, size_t count, Visitor&& visitor) {
    at %= kCapacity;
    const size_t before_end = std::min(count, kCapacity - at);
    if (before_end != 0) visitor(ring_.data() + at, 0, before_end);
    if (before_end != count) visitor(ring_.data(), before_end, count - before_end);
  }

  std::mutex mutex_;
  std::vector<std::byte> ring_ = std::vector<std::byte>(kCapacity);
  size_t first_ = 0;
  size_t held_ = 0;
  std::minstd_rand random_;
};

class PipeStream : public transport::Stream {
 public:
  PipeStream(Pipe& out, Pipe& in) : out_(out), in_(in) {}
  size_t send_some(std::span<const iovec> pieces) override { return out_.put(pieces); }
  size_t receive_some(std::span<const iovec> pieces) override { return in_.get(pieces); }
  bool failed() const override { return false; }

 private:
  Pipe& out_;
  Pipe& in_;
};

class World {
 public:
  // host_of: per member, hosts counted from 0 by first member.
  explicit World(std::vector<int> host_of, collectives::Settings settings = {})
      : host_of_(std::move(host_of)) {
    const size_t n = host_of_.size();
    hosts_ = *std::max_element(host_of_.begin(), host_of_.end()) + 1;
    for (size_t i = 0; i < n * n; ++i)
      pipes_.push_back(std::make_unique<Pipe>(static_cast<uint32_t>(i + 1)));
    const size_t share = collectives::bytes_per_member(static_cast<int>(n), hosts_);
    for (int h = 0; h < hosts_; ++h) {
      const size_t bytes =
          share * static_cast<size_t>(std::count(host_of_.begin(), host_of_.end(), h));
      memory_.emplace_back(std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096), &std::free);
      std::memset(memory_.back().get(), 0, bytes);
      memory_bytes_.push_back(bytes);
    }
    for (size_t m = 0; m < n; ++m) lanes_.push_back(lane_of(static_cast<int>(m)));
    settings_ = settings;
    renew();
  }
  static World on_one_host(int size) {
    return World(std::vector<int>(static_cast<size_t>(size), 0));
  }

  int size() const { return static_cast<int>(host_of_.size()); }
  int hosts() const { return hosts_; }
  const std::vector<int>& host_of() const { return host_of_; }
  collectives::LaneState& state(int member) { return *members_[static_cast<size_t>(member)]; }

  // New states over the old memory.
  void renew() {
    members_.clear();
    for (transport::Lane& lane : lanes_)
      members_.push_back(std::make_unique<collectives::LaneState>(lane, settings_));
  }
  // As if `round` rounds had passed.
  void set_round(uint32_t round) {
    const size_t share = collectives::bytes_per_member(size(), hosts_);
    for (size_t h = 0; h < memory_.size(); ++h) {
      for (size_t at = 0; at < memory_bytes_[h]; at += share) {
        auto* line = reinterpret_cast<collectives::ControlLine*>(
            static_cast<std::byte*>(memory_[h].get()) + at);
        line->filled = round;
        line->published = round;
      }
    }
    renew();
  }

  // Runs `body(member)` on a thread for each member.
  void run(const std::function<void(int)>& body) {
    std::vector<std::thread> threads;
    for (int m = 0; m < size(); ++m) threads.emplace_back(body, m);
    for (std::thread& thread : threads) thread.join();
  }

 private:
  transport::Lane lane_of(int me) {
    transport::Lane lane;
    lane.me = me;
    lane.host_of = host_of_;
    lane.hosts = hosts_;
    lane.bell = &bell_;
    const int host = host_of_[static_cast<size_t>(me)];
    for (int m = 0; m < size(); ++m) {
      lane.ranks.push_back(3 * m + 1);
      const size_t there = static_cast<size_t>(m * size() + me);
      const size_t back = static_cast<size_t>(me * size() + m);
      const bool near = host_of_[static_cast<size_t>(m)] == host;
      if (m == me) lane.me_local = static_cast<int>(lane.local.size());
      if (near) lane.local.push_back(m);
      lane.streams.push_back(near ? nullptr
                                  : std::make_unique<PipeStream>(*pipes_[back], *pipes_[there]));
    }
    const size_t h = static_cast<size_t>(host);
    lane.memory = {static_cast<std::byte*>(memory_[h].get()), memory_bytes_[h]};
    return lane;
  }

  std::vector<int> host_of_;
  collectives::Settings settings_;
  int hosts_ = 1;
  NoBell bell_;
  std::vector<std::unique_ptr<Pipe>> pipes_;
  std::vector<std::unique_ptr<void, decltype(&std::free)>> memory_;
  std::vector<size_t> memory_bytes_;
  std::vector<transport::Lane> lanes_;
  std::vector<std::unique_ptr<collectives::LaneState>> members_;
};

// Steps a program to its end.
inline void finish(collectives::Program program) {
  while (!program.done()) {
    if (!program.step()) std::this_thread::yield();
  }
}

}  // namespace hvd::test
