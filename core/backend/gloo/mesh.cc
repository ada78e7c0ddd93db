// SPDX-License-Identifier: Apache-2.0
#include "backend/gloo/mesh.h"

#include <gloo/common/error.h>
#include <gloo/transport/address.h>
#include <gloo/transport/pair.h>
#include <gloo/transport/unbound_buffer.h>

#include <chrono>
#include <cstring>
#include <utility>

namespace hvd::backend::gloo {
namespace {

// Where a member awaits the connection of another one.
struct AddressBytes {
  uint32_t size = 0;
  char bytes[::gloo::transport::Address::kMaxByteSize] = {};
};

[[noreturn]] void given_up() { throw ::gloo::IoException("the operation was given up"); }

}  // namespace

class AbortableContext::Buffer final : public ::gloo::transport::UnboundBuffer {
 public:
  Buffer(AbortableContext& context, std::unique_ptr<UnboundBuffer> inner)
      : UnboundBuffer(inner->ptr, inner->size), context_(context), inner_(std::move(inner)) {
    const std::lock_guard lock(context_.mutex_);
    context_.buffers_.insert(this);
  }
  ~Buffer() override {
    const std::lock_guard lock(context_.mutex_);
    context_.buffers_.erase(this);
  }

  bool waitRecv(int* member, std::chrono::milliseconds timeout) override {
    check();
    return inner_->waitRecv(member, timeout) || (check(), false);
  }
  bool waitSend(int* member, std::chrono::milliseconds timeout) override {
    check();
    return inner_->waitSend(member, timeout) || (check(), false);
  }
  void abortWaitRecv() override { inner_->abortWaitRecv(); }
  void abortWaitSend() override { inner_->abortWaitSend(); }
  void send(int member, uint64_t slot, size_t offset, size_t bytes) override {
    check();
    inner_->send(member, slot, offset, bytes);
  }
  void recv(int member, uint64_t slot, size_t offset, size_t bytes) override {
    check();
    inner_->recv(member, slot, offset, bytes);
  }
  void recv(std::vector<int> members, uint64_t slot, size_t offset, size_t bytes) override {
    check();
    inner_->recv(std::move(members), slot, offset, bytes);
  }

 private:
  void check() const {
    if (context_.aborted_) given_up();
  }
  AbortableContext& context_;
  const std::unique_ptr<UnboundBuffer> inner_;
};

AbortableContext::AbortableContext(std::shared_ptr<::gloo::transport::Context> inner)
    : Context(inner->rank, inner->size), inner_(std::move(inner)) {}

std::unique_ptr<::gloo::transport::UnboundBuffer> AbortableContext::createUnboundBuffer(
    void* data, size_t size) {
  return std::make_unique<Buffer>(*this, inner_->createUnboundBuffer(data, size));
}

// A wait that begins just now has looked at aborted_ already but does not sleep yet: Gloo remembers
// the abort for it.
void AbortableContext::abort() {
  aborted_ = true;
  const std::lock_guard lock(mutex_);
  for (Buffer* buffer : buffers_) {
    buffer->abortWaitRecv();
    buffer->abortWaitSend();
  }
}

void Mesh::connect(std::shared_ptr<::gloo::transport::Device> device, const ExchangeFn& exchange) {
  const std::shared_ptr<::gloo::transport::Context> inner = device->createContext(rank, size);
  inner->setTimeout(getTimeout());
  const auto members = static_cast<size_t>(size);
  std::vector<AddressBytes> mine(members);
  for (int member = 0; member < size; ++member) {
    if (member == rank) continue;
    std::unique_ptr<::gloo::transport::Pair>& pair = inner->createPair(member);
    pair->setLocalRank(0);
    const std::vector<char> address = pair->address().bytes();
    AddressBytes& bytes = mine[static_cast<size_t>(member)];
    if (address.size() > sizeof bytes.bytes)
      throw ::gloo::Exception("an address has " + std::to_string(address.size()) + " bytes");
    bytes.size = static_cast<uint32_t>(address.size());
    std::memcpy(bytes.bytes, address.data(), address.size());
  }
  std::vector<AddressBytes> all(members * members);
  exchange(mine.data(), mine.size() * sizeof(AddressBytes), all.data());
  for (int member = 0; member < size; ++member) {
    if (member == rank) continue;
    const AddressBytes& theirs =
        all[static_cast<size_t>(member) * members + static_cast<size_t>(rank)];
    try {
      inner->getPair(member)->connect(std::vector<char>(theirs.bytes, theirs.bytes + theirs.size));
    } catch (const std::exception& error) {
      throw ::gloo::IoException("connection to member " + std::to_string(member) + ": " +
                                error.what());
    }
  }
  abortable_ = std::make_shared<AbortableContext>(inner);
  device_ = std::move(device);
  transportContext_ = abortable_;
}

void Mesh::abort() {
  if (abortable_) abortable_->abort();
}

}  // namespace hvd::backend::gloo
