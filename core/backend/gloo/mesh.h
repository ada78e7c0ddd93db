// SPDX-License-Identifier: Apache-2.0
// Gloo's context of one group: connected pairwise without a store, and possible to give up in the
// middle of a collective.
#pragma once

#include <gloo/context.h>
#include <gloo/transport/context.h>
#include <gloo/transport/device.h>

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace hvd::backend::gloo {

// Every member's bytes in member order, from this member's.
using ExchangeFn = std::function<void(const void* bytes, size_t size, void* all)>;

// Wraps a transport's context so that abort() ends whatever waits in its buffers, now or later,
// with an exception.
class AbortableContext final : public ::gloo::transport::Context {
 public:
  explicit AbortableContext(std::shared_ptr<::gloo::transport::Context> inner);
  std::unique_ptr<::gloo::transport::Pair>& getPair(int member) override {
    return inner_->getPair(member);
  }
  std::unique_ptr<::gloo::transport::Pair>& createPair(int member) override {
    return inner_->createPair(member);
  }
  std::unique_ptr<::gloo::transport::UnboundBuffer> createUnboundBuffer(void* data,
                                                                        size_t size) override;
  void abort();

 private:
  class Buffer;
  const std::shared_ptr<::gloo::transport::Context> inner_;
  std::mutex mutex_;
  std::set<Buffer*> buffers_;
  std::atomic<bool> aborted_{false};
};

class Mesh final : public ::gloo::Context {
 public:
  Mesh(int me, int size) : ::gloo::Context(me, size) {}
  // Connects to all members; blocks, each connection at most for the context's timeout. Throws what
  // Gloo throws, naming the member.
  void connect(std::shared_ptr<::gloo::transport::Device> device, const ExchangeFn& exchange);
  void abort();

 private:
  std::shared_ptr<AbortableContext> abortable_;
};

}  // namespace hvd::backend::gloo
