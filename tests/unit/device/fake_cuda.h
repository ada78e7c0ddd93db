// SPDX-License-Identifier: Apache-2.0
// What the tests do with the stand-in for the CUDA driver beyond the driver's own interface.
//
// Streams are threads, so that work on them is as late as on a device; memory of a device can not
// be touched by the host (a segmentation fault), only by copies and kernels. Copies of memory that
// was freed, or between a device and host memory that is not page-locked, and calls without a
// context are faults.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

struct CUstream_st;

namespace fake_cuda {

using Stream = CUstream_st*;

// A program's own streams and memory, on a device; the context is made current meanwhile. Device
// memory is freed by free().
Stream make_stream(int device);
void* allocate(int device, size_t bytes);
void free(void* memory);

// Runs `body` on the stream, `microseconds` after what came before has ended. It uses device memory
// by shadow().
void launch(Stream stream, unsigned microseconds, std::function<void()> body);
void synchronize(Stream stream);
void synchronize_all();
void* shadow(const void* memory);

// The call of that symbol fails with `error`, after `good` ones that do not; 0 ends that.
void fail(const std::string& symbol, int error, int good = 0);
void set_devices(int count);
void set_version(int version);
// The stream is said to capture a graph, or not to any more: until then, calls that a capture
// forbids to all threads are faults.
void capture(Stream stream, bool on);
// What of this device is allocated, and how much page-locked memory there is.
size_t allocations(int device);
size_t locked_bytes();
// Modules that are loaded.
int modules();
// Graphs that are not destroyed, and what was made of them to be launched.
int graphs();
// Of the calling thread's context; -1 without one.
int current_device();
// As in take_calls().
std::string name_of(Stream stream);

// Calls since the last time, without queries: "cuEventRecord stream0". Streams are named in the
// order in which they were made, the default stream "default".
std::vector<std::string> take_calls();
// What should not have happened, each once.
std::vector<std::string> faults();

}  // namespace fake_cuda
