// SPDX-License-Identifier: Apache-2.0
#include "transport/ring.h"

#include <algorithm>

namespace hvd::transport {
namespace {

// Before each record. Records start at multiples of 8, so a header never wraps.
struct RecordHeader {
  uint32_t bytes;
  uint32_t more;  // 1: the message goes on in the next record
};
static_assert(sizeof(RecordHeader) == 8);

size_t padded(size_t bytes) { return (bytes + 7) & ~size_t{7}; }

size_t largest_record(size_t capacity) { return capacity / 2 - sizeof(RecordHeader); }

}  // namespace

bool RingWriter::room_for(size_t bytes) {
  if (capacity_ - (written_ - read_seen_) >= bytes) return true;
  read_seen_ = indices_->read.load(std::memory_order_acquire);
  return capacity_ - (written_ - read_seen_) >= bytes;
}

void RingWriter::copy_in(uint64_t position, const void* from, size_t bytes) {
  if (bytes == 0) return;
  const size_t start = position & (capacity_ - 1);
  const size_t first = std::min(bytes, capacity_ - start);
  std::memcpy(bytes_ + start, from, first);
  if (first < bytes)
    std::memcpy(bytes_, static_cast<const std::byte*>(from) + first, bytes - first);
}

bool RingWriter::put(std::span<const std::byte> message, size_t& done) {
  bool complete = false;
  const uint64_t before = written_;
  while (!complete) {
    const size_t bytes = std::min(message.size() - done, largest_record(capacity_));
    needed_ = sizeof(RecordHeader) + padded(bytes);
    if (!room_for(needed_)) break;
    complete = done + bytes == message.size();
    const RecordHeader header{static_cast<uint32_t>(bytes), complete ? 0u : 1u};
    copy_in(written_, &header, sizeof header);
    copy_in(written_ + sizeof header, message.data() + done, bytes);
    written_ += needed_;
    done += bytes;
  }
  if (written_ != before) indices_->written.store(written_, std::memory_order_release);
  return complete;
}

bool RingWriter::starve() {
  indices_->starved.store(1, std::memory_order_seq_cst);
  read_seen_ = indices_->read.load(std::memory_order_seq_cst);
  return capacity_ - (written_ - read_seen_) < needed_;
}

void RingReader::copy_out(uint64_t position, void* to, size_t bytes) const {
  const size_t start = position & (capacity_ - 1);
  const size_t first = std::min(bytes, capacity_ - start);
  std::memcpy(to, bytes_ + start, first);
  if (first < bytes) std::memcpy(static_cast<std::byte*>(to) + first, bytes_, bytes - first);
}

bool RingReader::next(uint64_t written, Record& record) {
  const uint64_t available = written - read_;
  RecordHeader header;
  if (available < sizeof header || available > capacity_) return false;
  copy_out(read_, &header, sizeof header);
  record.advance = sizeof header + padded(header.bytes);
  if (header.bytes > largest_record(capacity_) || header.more > 1 || record.advance > available)
    return false;
  if (assembled_ + header.bytes > kMaxMessage) return false;
  record.complete = header.more == 0;

  const uint64_t body = read_ + sizeof header;
  const size_t start = body & (capacity_ - 1);
  if (record.complete && assembled_ == 0 && start + header.bytes <= capacity_) {
    record.message = {bytes_ + start, header.bytes};
    return true;
  }
  if (assembly_.size() < assembled_ + header.bytes) {
    assembly_.resize(std::max(assembled_ + header.bytes, assembly_.size() * 2));
  }
  if (header.bytes != 0) copy_out(body, assembly_.data() + assembled_, header.bytes);
  assembled_ += header.bytes;
  record.message = {assembly_.data(), assembled_};
  return true;
}

}  // namespace hvd::transport
