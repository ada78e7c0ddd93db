// SPDX-License-Identifier: Apache-2.0
// A ring of values that one thread writes, in memory that other processes may read. A reader gets a
// value whole or not at all: words are atomic, and the first one, the value's number, is 0 while
// the others change.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "engine/flight_layout.h"

namespace hvd::engine {

template <class T, size_t kSize>
class Ring {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) % sizeof(uint64_t) == 0);
  static constexpr size_t kWords = sizeof(T) / sizeof(uint64_t);
  struct Slot {
    std::atomic<uint64_t> number;
    std::array<std::atomic<uint64_t>, kWords> words;
  };

 public:
  static constexpr size_t kBytes = kSize * sizeof(Slot);

  // Zeros lie `offset` bytes behind `memory`.
  Ring(FlightRing& entry, std::byte* memory, size_t offset)
      : slots_(reinterpret_cast<Slot*>(memory + offset)), newest_(entry.newest) {
    entry.offset = offset;
    entry.slots = kSize;
    entry.slot_bytes = sizeof(Slot);
  }

  uint64_t newest() const { return newest_.load(std::memory_order_acquire); }
  // Gets the slot of the next value into the cache.
  void prepare() const { __builtin_prefetch(&slots_[(count() + 1) % kSize], 1); }

  // Returns the value's number, from 1.
  uint64_t put(const T& value) noexcept {
    const uint64_t number = count() + 1;
    Slot& slot = slots_[number % kSize];
    std::array<uint64_t, kWords> words;
    std::memcpy(words.data(), &value, sizeof value);
    slot.number.store(0, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_release);
    for (size_t i = 0; i < kWords; ++i) slot.words[i].store(words[i], std::memory_order_relaxed);
    slot.number.store(number, std::memory_order_release);
    newest_.store(number, std::memory_order_release);
    return number;
  }

  // False if the value has been overwritten, or is not there yet.
  bool get(uint64_t number, T* value) const {
    const Slot& slot = slots_[number % kSize];
    if (number == 0 || slot.number.load(std::memory_order_acquire) != number) return false;
    std::array<uint64_t, kWords> words;
    for (size_t i = 0; i < kWords; ++i) words[i] = slot.words[i].load(std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_acquire);
    if (slot.number.load(std::memory_order_relaxed) != number) return false;
    std::memcpy(static_cast<void*>(value), words.data(), sizeof words);
    return true;
  }

 private:
  uint64_t count() const { return newest_.load(std::memory_order_relaxed); }

  Slot* slots_;
  std::atomic<uint64_t>& newest_;
};

}  // namespace hvd::engine
