// SPDX-License-Identifier: Apache-2.0
#include "transport/sealed_wire.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

namespace hvd::transport {
namespace {

// Before each record. Numbers travel in the byte order of x86 and ARM.
struct Header {
  uint32_t size = 0;  // bytes of the record
  secure::Seal::Tag tag{};
};
static_assert(sizeof(Header) == 20);

iovec piece_of(std::byte* bytes, size_t size) { return {bytes, size}; }

// Pieces for `most` bytes from byte `from` of `pieces` on, behind what `into` holds already.
void add_part(std::span<const iovec> pieces, size_t from, size_t most, std::vector<iovec>& into) {
  for (const iovec& piece : pieces) {
    const size_t skipped = std::min(from, piece.iov_len);
    from -= skipped;
    const size_t taken = std::min(piece.iov_len - skipped, most);
    if (taken != 0)
      into.push_back(piece_of(static_cast<std::byte*>(piece.iov_base) + skipped, taken));
    most -= taken;
  }
}

class SealedWire final : public Wire {
 public:
  SealedWire(Fd socket, secure::Seals seals)
      : wire_(plain_wire(std::move(socket))),
        seals_(std::move(seals)),
        inbox_(sizeof(Header) + kSealedRecord) {}

  Result<size_t> send(std::span<const iovec> pieces) override {
    size_t total = 0, offered = 0;
    for (const iovec& piece : pieces) offered += piece.iov_len;
    while (total < offered) {
      if (unsent_ == 0) HVD_TRY(seal(pieces, total, std::min(offered - total, kSealedRecord)));
      const size_t head = sizeof(Header) - header_sent_;
      parts_.assign(1, piece_of(reinterpret_cast<std::byte*>(&header_) + header_sent_, head));
      add_part(pieces, total, unsent_, parts_);
      const Result<size_t> sent = wire_->send(parts_);
      if (!sent.ok())
        return total != 0 && sent.status().code() == Code::kPending ? Result<size_t>(total) : sent;
      const size_t body = sent.value() - std::min(sent.value(), head);
      header_sent_ += sent.value() - body;
      unsent_ -= body;
      total += body;
    }
    return total;
  }

  Result<size_t> receive(std::span<const iovec> pieces) override {
    return fill_pieces(pieces, failure_,
                       [this](std::span<std::byte> into) { return deliver(into); });
  }

  bool buffered() const override { return end_ != begin_ || !failure_.ok(); }
  Status failure() const override { return failure_; }
  int fd() const override { return wire_->fd(); }

 private:
  // Begins the record of `size` bytes from byte `from` of the pieces on.
  Status seal(std::span<const iovec> pieces, size_t from, size_t size) {
    parts_.clear();
    add_part(pieces, from, size, parts_);
    const Result<secure::Seal::Tag> tag = seals_.sending->next(parts_);
    if (!tag.ok()) return tag.status();
    header_ = {static_cast<uint32_t>(size), tag.value()};
    header_sent_ = 0;
    unsent_ = size;
    return {};
  }

  Result<size_t> deliver(std::span<std::byte> into) {
    if (ready_ == 0) HVD_TRY(fill());
    const size_t count = std::min(ready_, into.size());
    std::memcpy(into.data(), inbox_.data() + begin_, count);
    begin_ += count;
    ready_ -= count;
    return count;
  }

  // Ok: a record is complete and right, and ready to be delivered.
  Status fill() {
    for (;;) {
      Header header;
      const size_t there = end_ - begin_;
      if (there >= sizeof header) {
        std::memcpy(&header, inbox_.data() + begin_, sizeof header);
        if (header.size == 0 || header.size > kSealedRecord) return altered();
        if (there >= sizeof header + header.size) return open(header);
      }
      std::memmove(inbox_.data(), inbox_.data() + begin_, there);
      begin_ = 0;
      end_ = there;
      const iovec room = piece_of(inbox_.data() + end_, inbox_.size() - end_);
      const Result<size_t> got = wire_->receive(std::span(&room, 1));
      if (!got.ok()) return got.status();
      end_ += got.value();
    }
  }

  Status open(const Header& header) {
    const iovec body = piece_of(inbox_.data() + begin_ + sizeof header, header.size);
    const Result<secure::Seal::Tag> tag = seals_.receiving->next(std::span(&body, 1));
    if (!tag.ok()) return tag.status();
    if (!secure::same_tag(tag.value(), header.tag)) return altered();
    begin_ += sizeof header;
    ready_ = header.size;
    return {};
  }

  static Status altered() {
    return {Code::kIo, "sent data that was altered on the way: its checksum is wrong"};
  }

  const std::unique_ptr<Wire> wire_;
  const secure::Seals seals_;
  Header header_;  // for the record that is being sent
  size_t header_sent_ = 0;
  size_t unsent_ = 0;  // bytes of that record
  std::vector<iovec> parts_;
  // bytes begin_ to end_ have arrived; the first ready_ of them may be delivered
  std::vector<std::byte> inbox_;
  size_t begin_ = 0;
  size_t end_ = 0;
  size_t ready_ = 0;
  Status failure_;
};

}  // namespace

std::unique_ptr<Wire> sealed_wire(Fd socket, secure::Seals seals) {
  return std::make_unique<SealedWire>(std::move(socket), std::move(seals));
}

}  // namespace hvd::transport
