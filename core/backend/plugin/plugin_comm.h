// SPDX-License-Identifier: Apache-2.0
// A process set's collectives over a plug-in: fused groups, scales, joined members and types that
// the plug-in's library does not know, put in terms of the few requests that it has.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "backend/plugin/library_comm.h"
#include "backend/plugin/memory.h"
#include "collectives/program.h"

namespace hvd::backend::plugin {

// Where a set's members are, if every host has as many of them, at least two, and there are several
// hosts.
struct Hosts {
  std::vector<std::vector<int>> members;  // [host][local index]: member index, ascending
  int host = 0;                           // this member's
  int local = 0;                          // this member's index there
  // Whether the members of each host follow one another, so that a host's part of a gathered result
  // is one piece.
  bool consecutive = false;
};

struct PluginParts {
  int me = 0;
  int size = 0;
  std::unique_ptr<LibraryComm> all;
  // With several hosts and hierarchical operations; otherwise null.
  // the members of this member's local index on all hosts, by host
  std::unique_ptr<LibraryComm> across;
  std::unique_ptr<Comm> local;  // native, the members of this host
  Hosts hosts;
};

// Element counts of `n` nearly equal shares.
void share_out(size_t count, size_t n, std::vector<size_t>* counts);

class PluginComm final : public Comm {
 public:
  explicit PluginComm(PluginParts parts) : parts_(std::move(parts)) {}
  ~PluginComm() override { abort(); }

  // All but Adasum.
  int score(const Work& work) const override;
  Status start(const Work& work) override;
  Progress poll() override;
  Status result() const override { return failure_; }
  bool must_poll() const override;
  int waiting_for() const override;
  DeviceMoves* device_moves() override { return parts_.all.get(); }
  void abort() noexcept override;

 private:
  using Program = collectives::Program;
  // Elements [begin, end) of the items of a reduction, one after another.
  struct Stretch {
    const Item* item;
    size_t first;
    size_t count;
  };

  Program choose();

  // flat.cc
  Program allreduce();
  Program allgather();
  Program broadcast();
  Program alltoall();
  Program reducescatter();
  Program reduce_block(LibraryComm& comm, const void* in, void* out, size_t count);
  Program reduce_shares(LibraryComm& comm, const void* in, std::span<const size_t> counts,
                        void* out);
  Program broadcast_bytes(LibraryComm& comm, std::byte* bytes, size_t size, int root);
  Program gather_bytes(LibraryComm& comm, const void* in, std::byte* out,
                       std::span<const size_t> bytes_of);
  Status gather_block(std::span<const Stretch> stretches, size_t count, const void** in);
  void scatter_block(std::span<const Stretch> stretches, const void* out) const;
  std::vector<Stretch> stretches(size_t begin, size_t end) const;

  // by_hosts.cc
  bool by_hosts() const;
  Program allreduce_by_hosts();
  Program allgather_by_hosts();
  Program broadcast_by_hosts();
  Program reducescatter_by_hosts();
  Status scatter_on_host(std::span<const Stretch> block, size_t* own);
  Status gather_on_host(std::span<const Stretch> block);
  void column_of(std::span<const size_t> parts, std::vector<size_t>* column) const;
  void split_by_hosts(std::span<const size_t> parts, size_t unit, std::byte* whole,
                      std::byte* slices, bool scatter);

  // Conditions to wait for.
  collectives::Condition request_over(LibraryComm& comm);
  collectives::Condition local_over();
  Status begin(LibraryComm& comm, const LibraryComm::Request& request);
  Status begin_local(const Work& work);
  bool failed() const { return !failure_.ok(); }

  PluginParts parts_;
  const Work* work_ = nullptr;
  Program program_;
  Status failure_;
  Time failed_at_{};
  LibraryComm* running_ = nullptr;  // the one whose request is under way
  bool local_running_ = false;
  bool broken_ = false;

  Scratch input_;     // gathered, scaled
  Scratch output_;    // before it is scattered
  Scratch received_;  // contributions of all members to the own share
  Scratch slices_;
  std::vector<size_t> send_bytes_, receive_bytes_, counts_;
  std::vector<const void*> sources_;
  // The local half of a hierarchical operation.
  std::vector<Item> local_items_;
  std::vector<std::vector<size_t>> local_parts_;
  Work local_work_;
};

}  // namespace hvd::backend::plugin
