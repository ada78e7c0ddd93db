// SPDX-License-Identifier: Apache-2.0
// An allreduce as four works: inside the hosts, between them, inside them again, and what is left.
#pragma once

#include <vector>

#include "backend/backend.h"

namespace hvd::backend::nccl {

struct ByHosts {
  // For the member with place `place` of the `members` on its host.
  ByHosts(const Work& work, int members, int place);
  ByHosts(const ByHosts&) = delete;
  ByHosts& operator=(const ByHosts&) = delete;

  Work slices;  // a reducescatter of all slices, with this member's in its place in the output
  Work across;  // an allreduce of that slice
  Work gather;  // an allgather of the slices
  Work rest;    // an allreduce of the last elements, fewer than `members` of each item

 private:
  // The memory that the works point to.
  std::vector<std::vector<size_t>> counts_;
  std::vector<std::vector<size_t>> bytes_;
  std::vector<Item> slices_items_;
  std::vector<Item> across_items_;
  std::vector<Item> gather_items_;
  std::vector<Item> rest_items_;
};

}  // namespace hvd::backend::nccl
