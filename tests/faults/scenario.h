// SPDX-License-Identifier: Apache-2.0
// What a rank does while something fails: it joins a job, runs each kind of operation, and leaves.
// Without memory of its own.
#pragma once

namespace hvd::testing {

struct Scenario {
  const char* rendezvous = "";
  const char* host = nullptr;  // null: the machine's
  int rank = 0;
  int size = 1;
  bool may_fail = true;  // otherwise every error is wrong
};

// 0 if every call succeeded with the right result or gave an error of those that hvd.h knows;
// otherwise the number of the step that went wrong, which is said on stderr.
int play(const Scenario& scenario);

}  // namespace hvd::testing
