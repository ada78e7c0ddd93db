// SPDX-License-Identifier: Apache-2.0
// A byte ring in shared memory between one writer and one reader: length-prefixed records, wrapping
// at the end. A message longer than half the ring travels as several records and is put together
// again by the reader.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace hvd::transport {

// Two cache lines: adjacent lines are fetched in pairs on common processors.
inline constexpr size_t kLine = 128;
inline constexpr size_t kMaxMessage = size_t{16} << 20;

// Counts of bytes since the start, which never wrap in practice (2^64). Zeroed memory is an empty
// ring.
struct RingIndices {
  alignas(kLine) std::atomic<uint64_t> written;
  std::atomic<uint32_t> starved;  // the writer sleeps on a full ring: ring its bell after reading
  alignas(kLine) std::atomic<uint64_t> read;
};

class RingWriter {
 public:
  RingWriter() = default;
  RingWriter(RingIndices* indices, std::byte* bytes, size_t capacity)
      : indices_(indices), bytes_(bytes), capacity_(capacity) {}

  // Goes on with `message` from byte `done` and advances `done`; true once its last byte is in the
  // ring. Empty messages are messages too. The bytes that were put are visible to the reader on
  // return.
  bool put(std::span<const std::byte> message, size_t& done);
  // After a put() that returned false: asks the reader to ring when it has made room. False if
  // there is room already.
  bool starve();

 private:
  bool room_for(size_t bytes);
  void copy_in(uint64_t position, const void* from, size_t bytes);

  RingIndices* indices_ = nullptr;
  std::byte* bytes_ = nullptr;
  size_t capacity_ = 0;  // power of two
  uint64_t written_ = 0;
  uint64_t read_seen_ = 0;
  size_t needed_ = 0;
};

class RingReader {
 public:
  enum class Outcome { kNothing, kDelivered, kMalformed };

  RingReader() = default;
  RingReader(RingIndices* indices, const std::byte* bytes, size_t capacity)
      : indices_(indices), bytes_(bytes), capacity_(capacity) {}

  bool ready() const { return indices_->written.load(std::memory_order_seq_cst) != read_; }

  // Calls deliver(span) for every message complete by now. kMalformed: the writer broke the format;
  // read no more.
  template <class Deliver>
  Outcome drain(Deliver&& deliver) {
    const uint64_t written = indices_->written.load(std::memory_order_acquire);
    if (written == read_) return Outcome::kNothing;
    while (read_ != written) {
      Record record;
      if (!next(written, record)) return Outcome::kMalformed;
      if (record.complete) deliver(record.message);
      read_ += record.advance;
      assembled_ = record.complete ? 0 : assembled_;
      // Returned in quarters so that a writer that fills the ring meanwhile finds room early.
      if (read_ - returned_ >= capacity_ / 4) give_back(std::memory_order_release);
    }
    give_back(std::memory_order_seq_cst);
    if (assembly_.capacity() > capacity_ && assembled_ == 0) assembly_ = {};
    return Outcome::kDelivered;
  }
  // True once per starve() of the writer; to be asked after drain().
  bool take_starved() {
    return indices_->starved.load(std::memory_order_seq_cst) != 0 &&
           indices_->starved.exchange(0) != 0;
  }

 private:
  struct Record {
    std::span<const std::byte> message;
    bool complete = false;
    size_t advance = 0;
  };
  bool next(uint64_t written, Record& record);
  void copy_out(uint64_t position, void* to, size_t bytes) const;
  void give_back(std::memory_order order) {
    returned_ = read_;
    indices_->read.store(read_, order);
  }

  RingIndices* indices_ = nullptr;
  const std::byte* bytes_ = nullptr;
  size_t capacity_ = 0;
  uint64_t read_ = 0;
  uint64_t returned_ = 0;
  std::vector<std::byte> assembly_;
  size_t assembled_ = 0;
};

}  // namespace hvd::transport
