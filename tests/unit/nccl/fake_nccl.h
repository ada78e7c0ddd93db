// SPDX-License-Identifier: Apache-2.0
// What the tests do with the stand-in for NCCL beyond the library's own interface.
//
// Ranks are threads of one process. What they queue runs on the streams of the stand-in for the
// driver, and waits there for the other ranks' parts, which must match. Collectives whose ranks do
// not match, buffers that are no device's, two ranks on one device and calls at a time at which the
// library does not allow them are faults.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace fake_nccl {

// The call of that symbol fails with `error`, after `good` ones that do not; 0 ends that.
void fail(const std::string& symbol, int error, int good = 0);
void set_version(int version);  // 22703 unless told
// How often a comm answers "in progress" when it connects, once all have come, and after each group
// of calls.
void set_init_delay(int polls);
void set_enqueue_delay(int polls);
// What comms of that device answer when they are asked; 0 ends that.
void set_async_error(int device, int error);

// Calls since the last time, but for queries: "dev0 ncclAllReduce float32 1000 sum stream3". With a
// device only its own, without the prefix.
std::vector<std::string> take_calls();
std::vector<std::string> take_calls(int device);
// What should not have happened, each once.
std::vector<std::string> faults();
// Handles that have been neither destroyed nor aborted.
size_t comms();
// As at the beginning, but for comms that live.
void reset();

}  // namespace fake_nccl
