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
  kAlone,    // a job of one rank, which has nobody to find
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
  // the same on all ranks of this start of the job, on no others; a name as in URLs, or empty
  std::string job;
  Way way = Way::kAlone;
  std::string address;      // kAddress: a host name or a numeric address
  uint16_t first_port = 0;  // kAddress: the first of `ports` ports
  int ports = 0;
  std::string note;  // for the user, about this place; or empty
};

inline constexpr int kLargestSize = 1 << 20;

// The place that HOROVOD_RANK, HOROVOD_SIZE and HOROVOD_RENDEZVOUS give. Rank 0 of 1 if all are
// unset or empty; kInvalidArgument, with the variables and the values, if only some are set or the
// values do not fit together.
Result<Place> place_from_environment(const Environment& environment);

// A value as every error about a variable shows it: `"text"`, in printable characters and at most
// 40 of them.
std::string quoted(const std::string& text);

// The value of a variable that holds a decimal number.
Result<int> read_number(const char* variable, const std::string& text, int lowest, int highest);

}  // namespace hvd::rendezvous
