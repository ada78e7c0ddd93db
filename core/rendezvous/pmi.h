// SPDX-License-Identifier: Apache-2.0
// The PMI-1 protocol of MPI launchers (MPICH's and Intel's mpiexec, Slurm's PMI-2 plug-in, Flux):
// lines of text over a socket that the launcher passes as PMI_FD.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/status.h"

namespace hvd::rendezvous {

// A line of the protocol: "cmd=get_result rc=0 value=x".
class PmiLine {
 public:
  static constexpr size_t kLongest = 4096;

  // Without its newline. kIo for what is no such line.
  static Result<PmiLine> parse(std::string_view line);

  // Empty if there is none.
  std::string_view operator[](std::string_view name) const;

 private:
  std::vector<std::pair<std::string, std::string>> fields_;
};

// Collective over all processes of the launcher: gives every rank the text of rank 0, in which
// neither blanks nor newlines are allowed. Once per process: launchers keep the first text.
Result<std::string> share_by_pmi(int fd, bool is_first, const std::string& text, Time deadline);

// Ends the protocol when this process exits, unless MPI was started in the process and does that:
// the launcher takes a process that has begun the protocol and exits without ending it for dead.
// The first of several calls counts. Not to be called from two threads at once.
void end_pmi_at_exit(int fd);

}  // namespace hvd::rendezvous
