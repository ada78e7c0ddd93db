// SPDX-License-Identifier: Apache-2.0
// What fails, and when: this program's own malloc and system calls, which the library gets instead
// of the system's, count themselves and give an error at the n-th call.
#pragma once

namespace hvd::testing {

struct FaultyCall {
  const char* name;
  const int* errors;  // what it may give, up to a zero
};
// By number; 0 is every way to get memory.
inline constexpr int kAllocation = 0;
int call_count();
const FaultyCall& call(int number);

struct Fault {
  int call = kAllocation;
  int error = 0;
  long at = 0;           // the call that fails; 0: none, they are only counted
  bool lasting = false;  // and all that follow
};

// From here on, in this process; calls are counted from zero.
void arm(const Fault& fault);
// Nothing fails any more, and nothing is counted.
void disarm();
// How many calls of that kind there have been since arm().
long calls_seen(int number);
// Pieces of memory that have been given out and not been given back.
long memory_pieces();

}  // namespace hvd::testing
