// SPDX-License-Identifier: Apache-2.0
// The place of this process in its job, as the launcher wrote it into the environment.
#pragma once

#include <cstdint>
#include <string>

#include "base/environment.h"
#include "base/status.h"

namespace hvd::rendezvous {

// How the ranks of a job can find each other, given what their launcher offers.
enum class Way {
  kAlone,    // one rank: there is nobody to find
  kUrl,      // at Place::url
  kHost,     // all on one host: at a name that only ranks of this user and this job derive
  kAddress,  // rank 0 listens at Place::address, on the first free port of a range
  kMpi,      // through MPI itself
  kPmix,     // through the launcher's PMIx server
  kPmi,      // through the PMI-1 descriptor that the launcher passed
  kUnknown,  // the launcher offers nothing
};

struct Place {
  int rank = 0;
  int size = 1;
  std::string url;      // empty: a job of one rank needs no store, or Place::way says how to meet
  std::string host;     // HOROVOD_HOSTNAME, or empty
  int local_rank = -1;  // as the launcher numbers them; -1 unknown
  int local_size = 0;   // 0 unknown

  std::string launcher;  // "Open MPI 5.0.11", "Slurm"; empty: none
  std::string job;       // the same on all ranks of this start of the job, on no others; a name as in URLs, or empty
  Way way = Way::kAlone;
  std::string address;      // kAddress: a host name or a numeric address
  uint16_t first_port = 0;  // kAddress: of a range of `ports` ports
  int ports = 0;
  std::string note;  // what the user may want to know about this place; or empty
};

inline constexpr int kLargestSize = 1 << 20;

// From HOROVOD_RANK, HOROVOD_SIZE and HOROVOD_RENDEZVOUS. None of them set (or all empty): rank 0 of 1. Some of them, or
// values that do not fit together: kInvalidArgument naming the variables and the values.
Result<Place> place_from_environment(const Environment& environment);

// What every error about a variable says of its value: `"text"`, in printable characters and at most 40 of them.
std::string quoted(const std::string& text);

// Of a variable that holds a decimal number.
Result<int> read_number(const char* variable, const std::string& text, int lowest, int highest);

}  // namespace hvd::rendezvous
